//! What an authority is and does, as a value: where its papers lie, whom it knows, what it demands, and what it does wrong.
//! The rest of `authority` plays it.

use serde_json::Value;

use super::lapse::{Endpoint, How, Lapse};
use crate::script::Script;

/// Where the resource's metadata lies (RFC 9728).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResourcePaper {
    /// Behind the well-known path, with the resource's own path at its end.
    #[default]
    AtPath,
    /// At the root, as if the whole host were one resource.
    AtRoot,
    /// Somewhere that only a challenge names.
    InChallengeOnly,
    /// Nowhere.
    Absent,
}

/// Where the authorization server's metadata lies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerPaper {
    /// RFC 8414: the well-known part comes before the issuer's path.
    #[default]
    OauthInserted,
    /// OpenID Connect's document, with its well-known part before the issuer's path.
    OidcInserted,
    /// OpenID Connect's document, where OpenID Connect puts it: after the issuer's path.
    OidcAppended,
    /// Nowhere: the endpoints are where the protocol of March 2025 guesses them.
    Absent,
}

/// Who is at which origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Housing {
    /// The authorization server has an origin of its own.
    #[default]
    Apart,
    /// It shares the origin of the resource.
    Together,
}

/// What a request without a good token is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Challenge {
    /// One header that names the metadata.
    #[default]
    Full,
    /// One header without a word about metadata.
    Bare,
    /// No header at all.
    None,
    /// Three headers, ours the last.
    Several,
}

/// What becomes of a client that registers itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Registration {
    /// It gets an id.
    #[default]
    Public,
    /// It gets an id and a secret.
    WithSecret,
    /// It is refused.
    Refused,
    /// There is no such endpoint.
    Absent,
}

/// Are documents taken that clients publish about themselves?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Documents {
    /// Not known.
    #[default]
    Unknown,
    /// They are fetched.
    Taken,
}

/// What the person at the browser does, or what the server makes of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Consent {
    /// Says yes at once.
    #[default]
    Approves,
    /// Says no.
    Denies,
    /// Says yes, and the server sends back a state that nobody gave it.
    WrongState,
    /// Says yes, and the server forgets the state.
    NoState,
    /// Sees a page first, with a link that says yes.
    Page,
    /// Says yes, and is sent to somebody else's host.
    Elsewhere,
}

/// What an answer says about who sent it (RFC 9207).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IssuerParameter {
    /// It is announced and right.
    #[default]
    Announced,
    /// It is right, though nobody announced it.
    Unannounced,
    /// It is announced and missing.
    Missing,
    /// It names somebody else.
    Wrong,
    /// It is neither announced nor there.
    Absent,
}

/// Must requests name the resource that a token is for (RFC 8707)?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Indicator {
    /// Yes, and the right one.
    #[default]
    Required,
    /// Nobody looks.
    Ignored,
}

/// Are tokens bound to a key (RFC 9449)?
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Binding {
    /// Nobody looks at proofs.
    #[default]
    Ignored,
    /// Whoever shows a proof gets a token that needs one.
    Offered,
    /// Every token needs proofs.
    Demanded,
    /// The same, with a number from the server in each of them.
    WithNonce,
}

/// What comes of a device's polling (RFC 8628).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceCourse {
    /// How often it is told to wait.
    pub pending: usize,
    /// How often after that it is told to ask less often.
    pub slow_down: usize,
    /// How it ends.
    pub ending: DeviceEnding,
}

/// How a device's polling ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceEnding {
    /// With tokens.
    Approved,
    /// The person said no.
    Denied,
    /// Nobody came in time.
    Expired,
}

/// A client that is known beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownClient {
    /// Its id.
    pub id: String,
    /// Its secret, where it has one.
    pub secret: Option<String>,
    /// Its public key as a JWK, where it signs.
    pub key: Option<Value>,
}

/// What a method or tool needs besides a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// A method such as `tools/list`, or the name of a tool.
    pub what: String,
    /// The scope that it takes.
    pub scope: String,
}

/// What an authority says that is unusual, though not a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Habit {
    /// Errors of the token endpoint come with status 200 and `"ok": false`.
    ErrorsLookWell,
    /// A dead refresh token is refused with this word.
    RefusesRefreshAs(String),
    /// `expires_in` is a text.
    ExpiryIsText,
    /// There is no `expires_in`.
    NoExpiry,
    /// There is no `token_type`.
    NoTokenType,
    /// Tokens are inside `authed_user`.
    NestedTokens,
    /// Scopes are separated by commas.
    ScopesWithCommas,
    /// A refresh token stays good when it is used.
    NoRotation,
    /// There are no refresh tokens.
    NoRefreshTokens,
    /// The metadata names another issuer.
    NamesAnotherIssuer,
    /// The resource's metadata is about another resource.
    NamesAnotherResource,
    /// People are sent here to sign in, whatever it is.
    SendsPeopleTo(String),
    /// Whatever scope a token has, calls of tools need more.
    NeverEnough,
}

/// What an authority is and does.
#[derive(Debug, Clone)]
pub struct Charter {
    /// The server behind the gate.
    pub script: Script,
    /// Where its metadata lies.
    pub resource_paper: ResourcePaper,
    /// Where the authorization server's metadata lies.
    pub issuer_paper: IssuerPaper,
    /// The path of the issuer's address; empty, or with a slash at its beginning.
    pub issuer_path: String,
    /// Who is at which origin.
    pub housing: Housing,
    /// What a request without a good token is told.
    pub challenge: Challenge,
    /// The scope that a challenge asks for.
    pub challenge_scope: Option<String>,
    /// What becomes of a client that registers itself.
    pub registration: Registration,
    /// Are documents taken that clients publish?
    pub documents: Documents,
    /// Clients that are known beforehand.
    pub clients: Vec<KnownClient>,
    /// The id that the identity provider's clients have at the authorization server; the same where none is said.
    pub enterprise_client: Option<String>,
    /// How clients may show who they are at the token endpoint.
    pub auth_methods: Vec<String>,
    /// What the person does.
    pub consent: Consent,
    /// What an answer says about who sent it.
    pub issuer_parameter: IssuerParameter,
    /// Must requests name the resource?
    pub indicator: Indicator,
    /// Are tokens bound to a key?
    pub binding: Binding,
    /// The scopes that the resource's metadata lists.
    pub resource_scopes: Vec<String>,
    /// The scopes that the authorization server lists.
    pub issuer_scopes: Vec<String>,
    /// What needs which scope.
    pub needs: Vec<Need>,
    /// How long a token for the resource lives, in seconds.
    pub lifetime: u64,
    /// How long an exchange for tokens takes, so that several can meet.
    pub token_ms: u64,
    /// What comes of a device's polling; without it there are no devices.
    pub device: Option<DeviceCourse>,
    /// What is unusual.
    pub habits: Vec<Habit>,
    /// What goes wrong.
    pub lapses: Vec<Lapse>,
}

impl Default for Charter {
    fn default() -> Charter {
        Charter {
            script: Script::both(),
            resource_paper: ResourcePaper::default(),
            issuer_paper: IssuerPaper::default(),
            issuer_path: String::new(),
            housing: Housing::default(),
            challenge: Challenge::default(),
            challenge_scope: None,
            registration: Registration::default(),
            documents: Documents::default(),
            clients: Vec::new(),
            enterprise_client: None,
            auth_methods: ["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
                .map(str::to_owned)
                .to_vec(),
            consent: Consent::default(),
            issuer_parameter: IssuerParameter::default(),
            indicator: Indicator::default(),
            binding: Binding::default(),
            resource_scopes: Vec::new(),
            issuer_scopes: Vec::new(),
            needs: Vec::new(),
            lifetime: 3600,
            token_ms: 0,
            device: None,
            habits: Vec::new(),
            lapses: Vec::new(),
        }
    }
}

impl Charter {
    /// An authority that does everything right.
    pub fn good() -> Charter {
        Charter::default()
    }

    /// With one more habit.
    pub fn habit(mut self, habit: Habit) -> Charter {
        self.habits.push(habit);
        self
    }

    /// With something that goes wrong every time.
    pub fn lapse(mut self, at: Endpoint, how: How) -> Charter {
        self.lapses.push(Lapse { at, how, from: 0, times: None });
        self
    }

    /// With something that goes wrong once.
    pub fn lapse_once(mut self, at: Endpoint, how: How) -> Charter {
        self.lapses.push(Lapse { at, how, from: 0, times: Some(1) });
        self
    }

    /// With a client that is known beforehand.
    pub fn client(mut self, id: &str, secret: Option<&str>) -> Charter {
        let secret = secret.map(str::to_owned);
        self.clients.push(KnownClient { id: id.to_owned(), secret, key: None });
        self
    }

    /// With a client that is known beforehand by its public key.
    pub fn signing_client(mut self, id: &str, key: Value) -> Charter {
        self.clients.push(KnownClient { id: id.to_owned(), secret: None, key: Some(key) });
        self
    }

    /// With a scope that a method or tool needs.
    pub fn need(mut self, what: &str, scope: &str) -> Charter {
        self.needs.push(Need { what: what.to_owned(), scope: scope.to_owned() });
        self
    }

    /// Taking only these ways of showing who a client is.
    pub fn auth_methods(mut self, methods: &[&str]) -> Charter {
        self.auth_methods = methods.iter().map(|&it| it.to_owned()).collect();
        self
    }

    pub(crate) fn has(&self, habit: &Habit) -> bool {
        self.habits.contains(habit)
    }

    pub(crate) fn habit_with<T>(&self, pick: impl Fn(&Habit) -> Option<T>) -> Option<T> {
        self.habits.iter().find_map(pick)
    }
}
