//! Environment variables that change which code a program loads or which programs it runs. Users are told about them
//! before they approve a server, and an allow rule for a command does not cover an entry that sets one.
//!
//! Variables that choose a proxy or the trusted certificates count: many servers fetch their code when they start.
//! `ENV` does not: a shell reads it only if it is interactive, and many programs use it for a word like `production`.

/// Exact names, in upper case.
const NAMES: &[&str] = &[
    "PATH",
    "PATHEXT",
    "COMSPEC",
    "PSMODULEPATH",
    "HOME",
    "USERPROFILE",
    "APPDATA",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "BASH_ENV",
    "SHELL",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "PS4",
    "IFS",
    "ZDOTDIR",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_EXTERNAL_MODULE",
    "NODE_EXTRA_CA_CERTS",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "PUPPETEER_EXECUTABLE_PATH",
    "CHROME_PATH",
    "NVM_DIR",
    "TS_NODE_PROJECT",
    "CLASSPATH",
    "JAVA_HOME",
    "JAVA_TOOL_OPTIONS",
    "JAVA_OPTS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "JAVA_OPTIONS",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "JRUBY_OPTS",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_GEMFILE",
    "PERLLIB",
    "PHPRC",
    "PHP_INI_SCAN_DIR",
    "DOTNET_STARTUP_HOOKS",
    "DOTNET_ROOT",
    "DOTNET_ADDITIONAL_DEPS",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "GUILE_LOAD_PATH",
    "GTK_MODULES",
    "QT_PLUGIN_PATH",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "AWS_CA_BUNDLE",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "KUBECONFIG",
    "VIRTUAL_ENV",
    "GOFLAGS",
    "GOPROXY",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_EXEC_PATH",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "GIT_EXTERNAL_DIFF",
    "GIT_EDITOR",
    "GIT_PAGER",
    "GIT_TEMPLATE_DIR",
    "SSH_ASKPASS",
    "SUDO_ASKPASS",
];

/// Prefixes of names, in upper case.
const PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH_FUNC_",
    "NPM_CONFIG_",
    "YARN_",
    "COREPACK_",
    "BUN_",
    "DENO_",
    "PIP_",
    "PIPX_",
    "UV_",
    "PYTHON",
    "RUBY",
    "PERL5",
    "LUA_",
    "R_LIBS",
    "R_PROFILE",
    "R_ENVIRON",
    "COR_",
    "CORECLR_",
    "OPENSSL_",
    "GIT_CONFIG",
    "GIT_SSL_",
    "PLAYWRIGHT_",
    "CARGO_",
    "RUSTUP_",
];

/// Exceptions from [`PREFIXES`]: they change only input and output.
const HARMLESS: &[&str] = &[
    "PYTHONUNBUFFERED",
    "PYTHONIOENCODING",
    "PYTHONUTF8",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONFAULTHANDLER",
    "PYTHONLEGACYWINDOWSSTDIO",
    "UV_THREADPOOL_SIZE",
    "UV_NO_PROGRESS",
    "PIP_NO_INPUT",
    "PIP_DISABLE_PIP_VERSION_CHECK",
    "CARGO_TERM_COLOR",
];

/// Does the variable change which code a program loads, or which programs it runs?
pub fn changes_loading(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let name = name.as_str();
    !HARMLESS.contains(&name)
        && (NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_and_path_variables_are_known_and_ordinary_ones_are_not() {
        for name in [
            "LD_PRELOAD",
            "LD_LIBRARY_PATH",
            "DYLD_INSERT_LIBRARIES",
            "NODE_OPTIONS",
            "PATH",
            "Path",
            "PYTHONPATH",
            "PYTHONSTARTUP",
            "BASH_ENV",
            "GIT_SSH_COMMAND",
            "RUBYOPT",
            "PERL5OPT",
            "JAVA_TOOL_OPTIONS",
            "npm_config_registry",
            "BASH_FUNC_ls%%",
            "GLIBC_TUNABLES",
            "https_proxy",
            "ALL_PROXY",
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "AWS_CONFIG_FILE",
            "PUPPETEER_EXECUTABLE_PATH",
        ] {
            assert!(changes_loading(name), "{name}");
        }
        for name in [
            "GITHUB_TOKEN",
            "LOG_LEVEL",
            "PYTHONUNBUFFERED",
            "PORT",
            "LANG",
            "MY_PATH",
            "ENV",
            "NO_PROXY",
        ] {
            assert!(!changes_loading(name), "{name}");
        }
    }
}
