//! The second half of a login: the client, the authorization URL and its callback, and the token requests.
//! Logins on another device are in `device`.

use super::metadata_discovery::AuthServerClient;
use super::{CompletedLogin, Flow, FlowError, FlowState, LoginGrant, Step};
use crate::challenge::DpopRequirement;
use crate::crypto::dpop::DpopKey;
use crate::crypto::pkce::PkceVerifier;
use crate::discovery::auth_server_metadata::AuthServerMetadata;
use crate::fetch::{FetchError, FetchResponse};
use crate::flow::authorization_url;
use crate::flow::authorization_url::AuthorizationRequest;
use crate::flow::callback;
use crate::flow::callback::{CallbackError, CallbackSource, ExpectedCallback};
use crate::registration::{self, ClientAuthMethod, ClientChoice, OAuthClient, RegistrationRequest};
use crate::scopes::{self, ScopeSources, Scopes};
use crate::time_and_random::TimeAndRandom;
use crate::token::grant::Grant;
use crate::token::request::{TokenOutcome, TokenRequest};
use crate::token::response::{TokenResponse, TokenType};
use crate::untrusted_text::sanitize_for_display;

/// How many rejected callbacks a login survives.
const MAX_REJECTED_CALLBACKS: u32 = 20;

/// The facts about the authorization server that the remaining login steps need.
#[derive(Debug)]
pub(super) struct LoginContext {
    pub(super) metadata: AuthServerMetadata,
    pub(super) scopes: Option<Scopes>,
    pub(super) dpop_key: Option<DpopKey>,
}

#[derive(Debug)]
pub(super) struct PendingRegistration {
    context: LoginContext,
    method: ClientAuthMethod,
}

#[derive(Debug)]
pub(super) struct PendingCallback {
    context: LoginContext,
    client: OAuthClient,
    verifier: PkceVerifier,
    expected: ExpectedCallback,
    redirect_uri: String,
    rejected_callbacks: u32,
}

#[derive(Debug)]
pub(super) struct PendingTokenRequest {
    context: LoginContext,
    request: TokenRequest,
    recipient: TokenRecipient,
}

#[derive(Debug)]
enum TokenRecipient {
    AuthorizationServer,
    /// The client to use at the authorization server afterwards.
    IdentityProvider(Box<OAuthClient>),
}

pub(super) type FetchResult = Result<FetchResponse, FetchError>;

impl Flow {
    /// Chooses or registers the client for this authorization server.
    pub(super) fn choose_client(
        &mut self,
        metadata: AuthServerMetadata,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        if let Some(configured) = &self.plan.client_config.configured
            && let Some(expected) = &configured.issuer
            && *expected != metadata.issuer
        {
            let named = sanitize_for_display(&metadata.issuer);
            return Err(FlowError::IssuerMismatch { expected: expected.clone(), named });
        }
        let scopes = scopes::select_scopes(&ScopeSources {
            configured: self.plan.scopes.as_ref(),
            challenge: self.plan.challenge.scopes.as_ref(),
            resource: self.resource.as_ref().and_then(|it| it.scopes_supported.as_ref()),
            supported: metadata.scopes_supported.as_ref(),
            granted: self.plan.granted_scopes.as_ref(),
        });
        let dpop_key = match (self.dpop_requirement(), metadata.supports_dpop()) {
            (DpopRequirement::Unspecified, _) | (DpopRequirement::Supported, false) => None,
            (DpopRequirement::Supported, true) | (DpopRequirement::Required, _) => {
                self.plan.dpop_key.clone()
            }
        };
        if self.dpop_requirement() == DpopRequirement::Required && dpop_key.is_none() {
            return Err(FlowError::DpopUnavailable);
        }
        let context = LoginContext { metadata, scopes, dpop_key };
        let (known, redirect) = (self.plan.previous_client.as_ref(), self.redirect_uri());
        let redirect = redirect.as_deref();
        match registration::choose_client(
            &self.plan.client_config,
            &context.metadata,
            known,
            redirect,
        ) {
            ClientChoice::Use(client) => self.start_grant(context, client, inputs),
            ClientChoice::Register(method) => {
                let endpoint = context.metadata.registration_endpoint(&self.origin_guard);
                let endpoint = endpoint.map_err(FlowError::AuthServerMetadata)?;
                let request = registration::registration_request(
                    endpoint,
                    &self.registration_request(&context, method),
                );
                self.state =
                    FlowState::Registration(Box::new(PendingRegistration { context, method }));
                Ok(Step::Fetch(Box::new(request)))
            }
            ClientChoice::Unavailable => Err(FlowError::NoClient),
        }
    }

    /// The redirect URI of a browser login.
    fn redirect_uri(&self) -> Option<String> {
        match &self.plan.method {
            LoginGrant::Browser { redirect_uri } => Some(redirect_uri.to_string()),
            LoginGrant::Device
            | LoginGrant::ClientCredentials
            | LoginGrant::WorkloadIdentity(_)
            | LoginGrant::IdentityProvider(_) => None,
        }
    }

    fn registration_request<'a>(
        &'a self,
        context: &'a LoginContext,
        method: ClientAuthMethod,
    ) -> RegistrationRequest<'a> {
        let grants: &[&str] = match &self.plan.method {
            LoginGrant::Browser { .. } => &["authorization_code", "refresh_token"],
            LoginGrant::Device => {
                &["urn:ietf:params:oauth:grant-type:device_code", "refresh_token"]
            }
            LoginGrant::ClientCredentials => &["client_credentials"],
            LoginGrant::WorkloadIdentity(_) | LoginGrant::IdentityProvider(_) => {
                &["urn:ietf:params:oauth:grant-type:jwt-bearer"]
            }
        };
        let redirect = match &self.plan.method {
            LoginGrant::Browser { redirect_uri } => Some(redirect_uri.as_str()),
            LoginGrant::Device
            | LoginGrant::ClientCredentials
            | LoginGrant::WorkloadIdentity(_)
            | LoginGrant::IdentityProvider(_) => None,
        };
        let scopes = context.scopes.as_ref();
        RegistrationRequest {
            client_name: &self.plan.client_name,
            redirect_uri: redirect,
            auth_method: method,
            scopes,
            grant_types: grants,
        }
    }

    pub(super) fn on_registration_response(
        &mut self,
        at: PendingRegistration,
        fetched: FetchResult,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let response = fetched.map_err(FlowError::Fetch)?;
        let registration_request = self.registration_request(&at.context, at.method);
        let client = registration::parse_registration(
            &response,
            &at.context.metadata,
            &registration_request,
        );
        let client = client.map_err(FlowError::Registration)?;
        self.start_grant(at.context, client, inputs)
    }

    /// Starts the grant of the plan with this client.
    fn start_grant(
        &mut self,
        context: LoginContext,
        client: OAuthClient,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        match &self.plan.method {
            // A confidential client can use client credentials where the server offers no user login.
            LoginGrant::Browser { .. }
                if context.metadata.is_client_credentials_only() && client.has_credential() =>
            {
                self.request_tokens(context, client, Grant::ClientCredentials, inputs)
            }
            LoginGrant::Browser { redirect_uri } => {
                let redirect_uri = redirect_uri.to_string();
                self.open_authorization_url(context, client, redirect_uri, inputs)
            }
            LoginGrant::Device => self.request_device_code(context, client),
            LoginGrant::ClientCredentials => {
                self.request_tokens(context, client, Grant::ClientCredentials, inputs)
            }
            LoginGrant::WorkloadIdentity(token) => {
                let grant = Grant::JwtBearer(token.clone());
                self.request_tokens(context, client, grant, inputs)
            }
            LoginGrant::IdentityProvider(_) => self.discover_identity_provider(
                AuthServerClient { metadata: context.metadata, client },
                inputs,
            ),
        }
    }

    fn open_authorization_url(
        &mut self,
        context: LoginContext,
        client: OAuthClient,
        redirect_uri: String,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let endpoint = context
            .metadata
            .authorization_endpoint(&self.origin_guard)
            .map_err(FlowError::AuthServerMetadata)?;
        let verifier = PkceVerifier::new(inputs);
        let expected = ExpectedCallback {
            state: inputs.random_token(),
            issuer: context.metadata.issuer.clone(),
            requires_iss: context.metadata.authorization_response_iss_parameter_supported,
        };
        let thumbprint = context.dpop_key.as_ref().map(DpopKey::thumbprint);
        let url = authorization_url::authorization_url(
            &endpoint.url,
            &AuthorizationRequest {
                client: &client,
                redirect_uri: &redirect_uri,
                state: expected.state.reveal(),
                code_challenge: &verifier.challenge(),
                scopes: context.scopes.as_ref(),
                resource: self.resource_identifier().as_deref(),
                dpop_jkt: thumbprint.as_deref(),
            },
        );
        let pending = PendingCallback {
            context,
            client,
            verifier,
            expected,
            redirect_uri,
            rejected_callbacks: 0,
        };
        self.state = FlowState::AwaitingCallback(Box::new(pending));
        Ok(Step::OpenUrl(url))
    }

    pub(super) fn on_callback(
        &mut self,
        mut at: PendingCallback,
        text: &str,
        source: CallbackSource,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        match callback::parse_callback(text, source, &at.expected) {
            Ok(code) => {
                let grant = Grant::AuthorizationCode {
                    code,
                    verifier: at.verifier,
                    redirect_uri: at.redirect_uri,
                };
                self.request_tokens(at.context, at.client, grant, inputs)
            }
            // Any local process can reach the listener, and a user can paste the wrong text: keep waiting.
            Err(
                error @ (CallbackError::WrongState
                | CallbackError::NoCode
                | CallbackError::Malformed
                | CallbackError::BareCode),
            ) if at.rejected_callbacks < MAX_REJECTED_CALLBACKS => {
                at.rejected_callbacks += 1;
                self.state = FlowState::AwaitingCallback(Box::new(at));
                Ok(Step::CallbackRejected(error))
            }
            Err(error) => Err(FlowError::Callback(error)),
        }
    }

    pub(super) fn token_request(
        &self,
        context: &LoginContext,
        client: OAuthClient,
        grant: Grant,
    ) -> Result<TokenRequest, FlowError> {
        let endpoint = context
            .metadata
            .token_endpoint(&self.origin_guard)
            .map_err(FlowError::AuthServerMetadata)?;
        let key =
            self.plan.client_config.configured.as_ref().and_then(|it| it.credential.signing_key());
        Ok(TokenRequest {
            signing_key: key.cloned(),
            dpop_key: context.dpop_key.clone(),
            scopes: context.scopes.clone(),
            resource: self.resource_identifier(),
            ..TokenRequest::new(endpoint, grant, client)
        })
    }

    fn request_tokens(
        &mut self,
        context: LoginContext,
        client: OAuthClient,
        grant: Grant,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let request = self.token_request(&context, client, grant)?;
        let first = request.to_fetch_request(inputs);
        let recipient = TokenRecipient::AuthorizationServer;
        self.state =
            FlowState::TokenRequest(Box::new(PendingTokenRequest { context, request, recipient }));
        Ok(Step::Fetch(Box::new(first)))
    }

    /// Exchanges the ID token of the identity provider for a grant at the authorization server.
    pub(super) fn exchange_id_token(
        &mut self,
        auth_server: AuthServerClient,
        provider_metadata: &AuthServerMetadata,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let LoginGrant::IdentityProvider(provider) = &self.plan.method else {
            return Err(FlowError::UnexpectedEvent);
        };
        let endpoint = provider_metadata
            .token_endpoint(&self.origin_guard)
            .map_err(FlowError::AuthServerMetadata)?;
        let setup = registration::ClientConfig {
            configured: Some(provider.client.clone()),
            metadata_document: None,
        };
        let ClientChoice::Use(client) =
            registration::choose_client(&setup, provider_metadata, None, None)
        else {
            return Err(FlowError::NoClient);
        };
        let grant = Grant::TokenExchange {
            id_token: provider.id_token.clone(),
            audience: auth_server.metadata.issuer.clone(),
        };
        let request = TokenRequest {
            signing_key: provider.client.credential.signing_key().cloned(),
            resource: self.resource_identifier().or_else(|| Some(self.plan.server.to_string())),
            scopes: self.plan.scopes.clone(),
            ..TokenRequest::new(endpoint, grant, client)
        };
        let first = request.to_fetch_request(inputs);
        let context = LoginContext {
            metadata: auth_server.metadata,
            scopes: self.plan.scopes.clone(),
            dpop_key: None,
        };
        let recipient = TokenRecipient::IdentityProvider(Box::new(auth_server.client));
        self.state =
            FlowState::TokenRequest(Box::new(PendingTokenRequest { context, request, recipient }));
        Ok(Step::Fetch(Box::new(first)))
    }

    pub(super) fn on_token_response(
        &mut self,
        mut at: PendingTokenRequest,
        fetched: FetchResult,
        inputs: &mut TimeAndRandom<'_>,
    ) -> Result<Step, FlowError> {
        let response = fetched.map_err(FlowError::Fetch)?;
        match (at.request.on(&response, inputs), at.recipient) {
            (TokenOutcome::Retry(request), recipient) => {
                at.recipient = recipient;
                self.state = FlowState::TokenRequest(Box::new(at));
                Ok(Step::Fetch(Box::new(request)))
            }
            (TokenOutcome::Tokens(tokens), TokenRecipient::AuthorizationServer) => {
                self.finish(at.context, at.request.client, *tokens)
            }
            (TokenOutcome::Tokens(assertion), TokenRecipient::IdentityProvider(client)) => self
                .request_tokens(
                    at.context,
                    *client,
                    Grant::JwtBearer(assertion.access_token),
                    inputs,
                ),
            (TokenOutcome::Refused(error), TokenRecipient::AuthorizationServer) => {
                Err(FlowError::Token(error))
            }
            (TokenOutcome::Refused(error), TokenRecipient::IdentityProvider(_)) => {
                Err(FlowError::IdentityProvider(error))
            }
        }
    }

    pub(super) fn finish(
        &mut self,
        context: LoginContext,
        client: OAuthClient,
        tokens: TokenResponse,
    ) -> Result<Step, FlowError> {
        let dpop_key = match tokens.token_type {
            TokenType::Dpop => context.dpop_key,
            TokenType::Bearer => None,
        };
        let is_missing = match tokens.token_type {
            // A DPoP token is unusable without a key.
            TokenType::Dpop => dpop_key.is_none(),
            TokenType::Bearer => self.dpop_requirement() == DpopRequirement::Required,
        };
        if is_missing {
            return Err(FlowError::DpopUnavailable);
        }
        let scopes = tokens.scopes.clone().or(context.scopes);
        Ok(Step::Done(Box::new(CompletedLogin {
            tokens,
            client,
            metadata: context.metadata,
            resource: self.resource_identifier(),
            scopes,
            dpop_key,
        })))
    }
}
