//! Converts the OAuth settings of a server, whose keys are different in every host.

use serde_json::{Map, Value};

use super::entry_builder::{EntryBuilder, expect_string, expect_strings, wrong_type};
use super::note::{ExpectedType, ImportNote, SkipReason};

/// A key of our `oauth`.
#[derive(Debug, Clone, Copy)]
pub(super) enum OauthKey {
    ClientId,
    ClientSecret,
    CallbackPort,
    MetadataUrl,
    Scopes,
    Xaa,
}

impl EntryBuilder<'_> {
    /// Copies an object of OAuth settings; `names` maps the keys of the other host to ours.
    pub(super) fn copy_oauth(
        &mut self,
        key: &str,
        names: &[(&str, OauthKey)],
    ) -> Result<(), SkipReason> {
        let Some(table) = self.take_object(key)? else {
            return Ok(());
        };
        let mut oauth = Map::new();
        for (name, value) in table {
            let path = format!("{key}.{name}");
            match names.iter().find(|(known, _)| *known == name) {
                _ if value.is_null() => {}
                Some((_, setting)) => {
                    let value = self.oauth_value(&path, *setting, value)?;
                    oauth.insert(setting.name().to_owned(), value);
                }
                None => self.note(ImportNote::KeyDropped { key: path }),
            }
        }
        if !oauth.is_empty() {
            self.set("oauth", oauth);
        }
        Ok(())
    }

    fn oauth_value(
        &mut self,
        path: &str,
        setting: OauthKey,
        value: Value,
    ) -> Result<Value, SkipReason> {
        Ok(match setting {
            OauthKey::ClientId | OauthKey::ClientSecret | OauthKey::MetadataUrl => {
                self.translate(path, &expect_string(path, value)?).into()
            }
            OauthKey::Scopes if value.is_array() => expect_strings(path, value)?.join(" ").into(),
            OauthKey::Scopes => expect_string(path, value)?.into(),
            OauthKey::CallbackPort => {
                let port = value.as_u64().filter(|port| (1..=65_535).contains(port));
                port.ok_or_else(|| wrong_type(path, ExpectedType::Port))?.into()
            }
            OauthKey::Xaa => {
                value.as_bool().ok_or_else(|| wrong_type(path, ExpectedType::Boolean))?.into()
            }
        })
    }
}

impl OauthKey {
    fn name(self) -> &'static str {
        match self {
            OauthKey::ClientId => "clientId",
            OauthKey::ClientSecret => "clientSecret",
            OauthKey::CallbackPort => "callbackPort",
            OauthKey::MetadataUrl => "authServerMetadataUrl",
            OauthKey::Scopes => "scopes",
            OauthKey::Xaa => "xaa",
        }
    }
}
