//! The methods that the gateway knows. A request's method is parsed once; all later decisions match on [`Method`].

use std::borrow::Cow;

/// The method of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Method {
    Initialize,
    Ping,
    Discover,
    ToolsCall,
    ToolsList,
    ResourcesRead,
    ResourcesList,
    ResourceTemplatesList,
    ResourceDirectoryRead,
    ResourcesSubscribe,
    ResourcesUnsubscribe,
    SubscriptionsListen,
    PromptsGet,
    PromptsList,
    Complete,
    SetLogLevel,
    SkillsList,
    SkillsGet,
    TasksGet,
    TasksUpdate,
    TasksCancel,
    TasksResult,
    TasksList,
    /// A method of an extension, or one that does not exist.
    Other(Cow<'static, str>),
}

impl Method {
    /// Parses a method's name.
    pub(crate) fn parse(name: Cow<'static, str>) -> Method {
        match &*name {
            "initialize" => Method::Initialize,
            "ping" => Method::Ping,
            "server/discover" => Method::Discover,
            "tools/call" => Method::ToolsCall,
            "tools/list" => Method::ToolsList,
            "resources/read" => Method::ResourcesRead,
            "resources/list" => Method::ResourcesList,
            "resources/templates/list" => Method::ResourceTemplatesList,
            "resources/directory/read" => Method::ResourceDirectoryRead,
            "resources/subscribe" => Method::ResourcesSubscribe,
            "resources/unsubscribe" => Method::ResourcesUnsubscribe,
            "subscriptions/listen" => Method::SubscriptionsListen,
            "prompts/get" => Method::PromptsGet,
            "prompts/list" => Method::PromptsList,
            "completion/complete" => Method::Complete,
            "logging/setLevel" => Method::SetLogLevel,
            "skills/list" => Method::SkillsList,
            "skills/get" => Method::SkillsGet,
            "tasks/get" => Method::TasksGet,
            "tasks/update" => Method::TasksUpdate,
            "tasks/cancel" => Method::TasksCancel,
            "tasks/result" => Method::TasksResult,
            "tasks/list" => Method::TasksList,
            _ => Method::Other(name),
        }
    }

    /// The name, as requests carry it.
    pub(crate) fn as_str(&self) -> &str {
        if let Method::Other(name) = self { name } else { self.static_name() }
    }

    /// The name, for a request to a server.
    pub(crate) fn to_name(&self) -> Cow<'static, str> {
        if let Method::Other(name) = self {
            name.clone()
        } else {
            Cow::Borrowed(self.static_name())
        }
    }

    /// The name of a method that the gateway knows; empty for others.
    fn static_name(&self) -> &'static str {
        match self {
            Method::Initialize => "initialize",
            Method::Ping => "ping",
            Method::Discover => "server/discover",
            Method::ToolsCall => "tools/call",
            Method::ToolsList => "tools/list",
            Method::ResourcesRead => "resources/read",
            Method::ResourcesList => "resources/list",
            Method::ResourceTemplatesList => "resources/templates/list",
            Method::ResourceDirectoryRead => "resources/directory/read",
            Method::ResourcesSubscribe => "resources/subscribe",
            Method::ResourcesUnsubscribe => "resources/unsubscribe",
            Method::SubscriptionsListen => "subscriptions/listen",
            Method::PromptsGet => "prompts/get",
            Method::PromptsList => "prompts/list",
            Method::Complete => "completion/complete",
            Method::SetLogLevel => "logging/setLevel",
            Method::SkillsList => "skills/list",
            Method::SkillsGet => "skills/get",
            Method::TasksGet => "tasks/get",
            Method::TasksUpdate => "tasks/update",
            Method::TasksCancel => "tasks/cancel",
            Method::TasksResult => "tasks/result",
            Method::TasksList => "tasks/list",
            Method::Other(_) => "",
        }
    }

    /// Does the method change nothing on a server?
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Method::Initialize
            | Method::Ping
            | Method::Discover
            | Method::ToolsList
            | Method::ResourcesRead
            | Method::ResourcesList
            | Method::ResourceTemplatesList
            | Method::ResourceDirectoryRead
            | Method::ResourcesSubscribe
            | Method::ResourcesUnsubscribe
            | Method::SubscriptionsListen
            | Method::PromptsGet
            | Method::PromptsList
            | Method::Complete
            | Method::SetLogLevel
            | Method::SkillsList
            | Method::SkillsGet
            | Method::TasksGet
            | Method::TasksResult
            | Method::TasksList => true,
            Method::ToolsCall | Method::TasksUpdate | Method::TasksCancel | Method::Other(_) => {
                false
            }
        }
    }

    /// Does the modern era require cache members (`ttlMs`, `cacheScope`) in the result?
    pub(crate) fn is_cacheable(&self) -> bool {
        *self == Method::ResourcesRead || self.as_str().ends_with("/list")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_method_keeps_its_name_and_an_unknown_one_is_other() {
        let names = ["tools/call", "resources/templates/list", "logging/setLevel", "tasks/result"];
        for name in names {
            let method = Method::parse(name.into());
            assert!(!matches!(method, Method::Other(_)), "{name}");
            assert_eq!(method.as_str(), name);
        }
        assert_eq!(Method::parse("x/list".into()), Method::Other("x/list".into()));
        assert!(Method::parse("x/list".into()).is_cacheable());
        assert!(!Method::ToolsCall.is_cacheable() && Method::ResourcesRead.is_cacheable());
    }
}
