//! The second half of a login: who we are there, the person's part, and the tokens. Signing in on another device
//! is `device`'s part.

use super::finding::Found;
use super::{Flow, SignedIn, State, Step, Way, Why};
use crate::authorize_url::{self, Authorization};
use crate::callback::{self, Arrived, CallbackError, Expectation};
use crate::challenge::Binding;
use crate::discovery::resource_metadata::short;
use crate::discovery::server_metadata::ServerMetadata;
use crate::dpop::ProofKey;
use crate::fetch::{Answer, FetchError};
use crate::grant::Grant;
use crate::pkce::{Moment, Verifier};
use crate::registration::{self, Application, Choice, Client, Method};
use crate::scopes::{self, Scopes, Wishes};
use crate::token::{Kind, Tokens};
use crate::token_request::{Reply, TokenRequest};

/// How often a person may come back with something that is not taken.
const RETURNS: u32 = 20;

/// Everything about the authorization server that the rest of a login needs.
#[derive(Debug)]
pub(super) struct Ground {
    pub(super) metadata: ServerMetadata,
    pub(super) scopes: Option<Scopes>,
    pub(super) proof: Option<ProofKey>,
}

#[derive(Debug)]
pub(super) struct Registering {
    ground: Ground,
    method: Method,
}

#[derive(Debug)]
pub(super) struct Opened {
    ground: Ground,
    client: Client,
    verifier: Verifier,
    expectation: Expectation,
    redirect: String,
    returns: u32,
}

#[derive(Debug)]
pub(super) struct Asking {
    ground: Ground,
    request: TokenRequest,
    whom: Whom,
}

#[derive(Debug)]
enum Whom {
    AuthorizationServer,
    /// Who we will be at the authorization server.
    IdentityProvider(Box<Client>),
}

pub(super) type Fetched = Result<Answer, FetchError>;

impl Flow {
    /// The authorization server is known; who are we there?
    pub(super) fn begin_asking(
        &mut self,
        metadata: ServerMetadata,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        if let Some(configured) = &self.plan.setup.configured
            && let Some(expected) = &configured.issuer
            && *expected != metadata.issuer
        {
            let named = short(&metadata.issuer);
            return Err(Why::ForeignIssuer { expected: expected.clone(), named });
        }
        let scopes = scopes::select(&Wishes {
            configured: self.plan.scopes.as_ref(),
            challenged: self.plan.demand.scopes.as_ref(),
            resource: self.resource.as_ref().and_then(|it| it.scopes.as_ref()),
            known: metadata.scopes_supported.as_ref(),
            held: self.plan.held.as_ref(),
        });
        let proof = match (self.binding(), metadata.takes_proofs()) {
            (Binding::Unmentioned, _) | (Binding::Offered, false) => None,
            (Binding::Offered, true) | (Binding::Demanded, _) => self.plan.proof.clone(),
        };
        if self.binding() == Binding::Demanded && proof.is_none() {
            return Err(Why::Unbound);
        }
        let ground = Ground { metadata, scopes, proof };
        let (known, redirect) = (self.plan.known.as_ref(), self.redirect());
        let redirect = redirect.as_deref();
        match registration::choose(&self.plan.setup, &ground.metadata, known, redirect) {
            Choice::Use(client) => self.ask(ground, client, moment),
            Choice::Register(method) => {
                let endpoint = ground.metadata.registration_endpoint(&self.guard);
                let endpoint = endpoint.map_err(Why::Server)?;
                let request = registration::request(endpoint, &self.application(&ground, method));
                self.state = State::Registering(Box::new(Registering { ground, method }));
                Ok(Step::Fetch(Box::new(request)))
            }
            Choice::Impossible => Err(Why::NoClient),
        }
    }

    /// Where the person comes back to.
    fn redirect(&self) -> Option<String> {
        match &self.plan.way {
            Way::Browser { redirect } => Some(redirect.to_string()),
            Way::Device | Way::ClientCredentials | Way::Workload(_) | Way::Enterprise(_) => None,
        }
    }

    fn application<'a>(&'a self, ground: &'a Ground, method: Method) -> Application<'a> {
        let grants: &[&str] = match &self.plan.way {
            Way::Browser { .. } => &["authorization_code", "refresh_token"],
            Way::Device => &["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"],
            Way::ClientCredentials => &["client_credentials"],
            Way::Workload(_) | Way::Enterprise(_) => {
                &["urn:ietf:params:oauth:grant-type:jwt-bearer"]
            }
        };
        let redirect = match &self.plan.way {
            Way::Browser { redirect } => Some(redirect.as_str()),
            Way::Device | Way::ClientCredentials | Way::Workload(_) | Way::Enterprise(_) => None,
        };
        let scopes = ground.scopes.as_ref();
        Application { name: &self.plan.name, redirect, method, scopes, grants }
    }

    pub(super) fn on_registered(
        &mut self,
        at: Registering,
        fetched: Fetched,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let answer = fetched.map_err(Why::Fetch)?;
        let application = self.application(&at.ground, at.method);
        let client = registration::read(&answer, &at.ground.metadata, &application);
        let client = client.map_err(Why::Registration)?;
        self.ask(at.ground, client, moment)
    }

    /// The client is known; what does this way want?
    fn ask(
        &mut self,
        ground: Ground,
        client: Client,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        match &self.plan.way {
            // A client that can show who it is needs no person where no person could help.
            Way::Browser { .. } if ground.metadata.is_for_programs() && client.has_credential() => {
                self.ask_tokens(ground, client, Grant::ClientCredentials, moment)
            }
            Way::Browser { redirect } => {
                let redirect = redirect.to_string();
                self.open(ground, client, redirect, moment)
            }
            Way::Device => self.begin_device(ground, client),
            Way::ClientCredentials => {
                self.ask_tokens(ground, client, Grant::ClientCredentials, moment)
            }
            Way::Workload(token) => {
                let grant = Grant::JwtBearer(token.clone());
                self.ask_tokens(ground, client, grant, moment)
            }
            Way::Enterprise(_) => {
                self.find_provider(Found { metadata: ground.metadata, client }, moment)
            }
        }
    }

    fn open(
        &mut self,
        ground: Ground,
        client: Client,
        redirect: String,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let endpoint = ground.metadata.authorization_endpoint(&self.guard).map_err(Why::Server)?;
        let verifier = Verifier::new(moment);
        let expectation = Expectation {
            state: moment.unguessable(),
            issuer: ground.metadata.issuer.clone(),
            names_itself: ground.metadata.authorization_response_iss_parameter_supported,
        };
        let thumbprint = ground.proof.as_ref().map(ProofKey::thumbprint);
        let url = authorize_url::build(
            &endpoint.url,
            &Authorization {
                client: &client,
                redirect: &redirect,
                state: expectation.state.reveal(),
                challenge: &verifier.challenge(),
                scopes: ground.scopes.as_ref(),
                resource: self.resource_name().as_deref(),
                key_thumbprint: thumbprint.as_deref(),
            },
        );
        let opened = Opened { ground, client, verifier, expectation, redirect, returns: 0 };
        self.state = State::Opened(Box::new(opened));
        Ok(Step::Open(url))
    }

    pub(super) fn on_returned(
        &mut self,
        mut at: Opened,
        text: &str,
        arrived: Arrived,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        match callback::parse(text, arrived, &at.expectation) {
            Ok(code) => {
                let grant = Grant::Code { code, verifier: at.verifier, redirect: at.redirect };
                self.ask_tokens(at.ground, at.client, grant, moment)
            }
            // Anybody can knock at a listener, and anybody can paste the wrong thing: that ends no login.
            Err(
                error @ (CallbackError::WrongState
                | CallbackError::NoCode
                | CallbackError::Malformed
                | CallbackError::CodeAlone),
            ) if at.returns < RETURNS => {
                at.returns += 1;
                self.state = State::Opened(Box::new(at));
                Ok(Step::NotTaken(error))
            }
            Err(error) => Err(Why::Callback(error)),
        }
    }

    pub(super) fn token_request(
        &self,
        ground: &Ground,
        client: Client,
        grant: Grant,
    ) -> Result<TokenRequest, Why> {
        let endpoint = ground.metadata.token_endpoint(&self.guard).map_err(Why::Server)?;
        let key = self.plan.setup.configured.as_ref().and_then(|it| it.credential.key());
        Ok(TokenRequest {
            key: key.cloned(),
            proof: ground.proof.clone(),
            scopes: ground.scopes.clone(),
            resource: self.resource_name(),
            ..TokenRequest::new(endpoint, grant, client)
        })
    }

    fn ask_tokens(
        &mut self,
        ground: Ground,
        client: Client,
        grant: Grant,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let request = self.token_request(&ground, client, grant)?;
        let first = request.request(moment);
        let whom = Whom::AuthorizationServer;
        self.state = State::Asking(Box::new(Asking { ground, request, whom }));
        Ok(Step::Fetch(Box::new(first)))
    }

    /// Swaps who signed in at the identity provider for a grant at the authorization server.
    pub(super) fn exchange_identity(
        &mut self,
        found: Found,
        provider_metadata: &ServerMetadata,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let Way::Enterprise(provider) = &self.plan.way else { return Err(Why::OutOfStep) };
        let endpoint = provider_metadata.token_endpoint(&self.guard).map_err(Why::Server)?;
        let setup =
            registration::Setup { configured: Some(provider.client.clone()), document: None };
        let Choice::Use(client) = registration::choose(&setup, provider_metadata, None, None)
        else {
            return Err(Why::NoClient);
        };
        let grant = Grant::Exchange {
            identity: provider.identity.clone(),
            audience: found.metadata.issuer.clone(),
        };
        let request = TokenRequest {
            key: provider.client.credential.key().cloned(),
            resource: self.resource_name().or_else(|| Some(self.plan.server.to_string())),
            scopes: self.plan.scopes.clone(),
            ..TokenRequest::new(endpoint, grant, client)
        };
        let first = request.request(moment);
        let ground =
            Ground { metadata: found.metadata, scopes: self.plan.scopes.clone(), proof: None };
        let whom = Whom::IdentityProvider(Box::new(found.client));
        self.state = State::Asking(Box::new(Asking { ground, request, whom }));
        Ok(Step::Fetch(Box::new(first)))
    }

    pub(super) fn on_asked(
        &mut self,
        mut at: Asking,
        fetched: Fetched,
        moment: &mut Moment<'_>,
    ) -> Result<Step, Why> {
        let answer = fetched.map_err(Why::Fetch)?;
        match (at.request.on(&answer, moment), at.whom) {
            (Reply::Again(request), whom) => {
                at.whom = whom;
                self.state = State::Asking(Box::new(at));
                Ok(Step::Fetch(Box::new(request)))
            }
            (Reply::Tokens(tokens), Whom::AuthorizationServer) => {
                self.finish(at.ground, at.request.client, *tokens)
            }
            (Reply::Tokens(vouched), Whom::IdentityProvider(client)) => {
                self.ask_tokens(at.ground, *client, Grant::JwtBearer(vouched.access), moment)
            }
            (Reply::Refused(error), Whom::AuthorizationServer) => Err(Why::Token(error)),
            (Reply::Refused(error), Whom::IdentityProvider(_)) => Err(Why::IdentityProvider(error)),
        }
    }

    pub(super) fn finish(
        &mut self,
        ground: Ground,
        client: Client,
        tokens: Tokens,
    ) -> Result<Step, Why> {
        let proof = match tokens.kind {
            Kind::Dpop => ground.proof,
            Kind::Bearer => None,
        };
        let is_missing = match tokens.kind {
            // A bound token that we did not ask for cannot be used.
            Kind::Dpop => proof.is_none(),
            Kind::Bearer => self.binding() == Binding::Demanded,
        };
        if is_missing {
            return Err(Why::Unbound);
        }
        let scopes = tokens.scopes.clone().or(ground.scopes);
        Ok(Step::Done(Box::new(SignedIn {
            tokens,
            client,
            metadata: ground.metadata,
            resource: self.resource_name(),
            scopes,
            proof,
        })))
    }
}
