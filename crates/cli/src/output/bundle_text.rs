//! Bundles as text and as JSON: the manifest, the signature, the options, and the command that runs. Everything in a
//! manifest is untrusted text.

use serde_json::{Map, Value as Json, json};
use switchboard::config::bundle::{BundleManifest, BundleOutcome};
use switchboard::config::display::{pluralize, printable};
use switchboard::config::template::{LiteralText, Template, masked_template};
use switchboard::config::user_config::{UserConfig, UserOption, is_missing};
use switchboard_packages::bundle::{InspectedBundle, SignatureState};

use crate::output::server_text;

/// How many names of tools are shown.
const MAX_TOOLS: usize = 20;
const LABEL_WIDTH: usize = 14;

/// What a signature proves, in one line.
pub fn signature_text(signature: &SignatureState) -> String {
    match signature {
        SignatureState::Unsigned => "unsigned: nothing proves who made it".to_owned(),
        SignatureState::SelfSigned(signer) => format!(
            "self-signed as {}: anybody can make such a certificate",
            printable(&signer.subject)
        ),
        SignatureState::Signed { signer, fault: None } => {
            format!("signed by {} ({})", printable(&signer.subject), printable(&signer.issuer))
        }
        SignatureState::Signed { signer, fault: Some(fault) } => {
            format!("signed by {}, but {fault}", printable(&signer.subject))
        }
        SignatureState::Broken(fault) => format!("broken: {fault}"),
    }
}

/// A signature as JSON.
pub fn signature_json(signature: &SignatureState) -> Json {
    let chain = match signature {
        SignatureState::Signed { fault: None, .. } => Some("ok".to_owned()),
        SignatureState::Signed { fault: Some(fault), .. } => Some(fault.to_string()),
        SignatureState::Unsigned | SignatureState::SelfSigned(_) | SignatureState::Broken(_) => {
            None
        }
    };
    let fault = match signature {
        SignatureState::Broken(fault) => Some(fault.to_string()),
        SignatureState::Unsigned
        | SignatureState::SelfSigned(_)
        | SignatureState::Signed { .. } => None,
    };
    json!({
        "state": signature.id(),
        "signer": signature.signer().map(|it| it.subject.as_str()),
        "issuer": signature.signer().map(|it| it.issuer.as_str()),
        "chain": chain,
        "fault": fault,
    })
}

/// A bundle that is not installed yet, with the command that it would run.
pub fn inspected_text(bundle: &InspectedBundle, source: &str, outcome: &BundleOutcome) -> String {
    let size = format!("{} bytes, {}", bundle.size, pluralize(bundle.files.len(), "file", "files"));
    let mut text = manifest_heading(&bundle.manifest);
    text.push_str(&line("File", &format!("{source} ({size})")));
    text.push_str(&line("Hash", &bundle.hash.to_string()));
    text.push_str(&line("Signature", &signature_text(&bundle.signature)));
    text.push_str(&manifest_text(&bundle.manifest));
    for warning in &bundle.warnings {
        text.push_str(&line("Ignored", &printable(&warning.to_string())));
    }
    if let Some(warning) = missing_entry_point(bundle) {
        text.push_str(&line("Warning", &printable(&warning)));
    }
    text.push_str(&outcome_text(outcome));
    if !bundle.manifest.user_config.is_empty() {
        text.push_str("  Options:\n");
        text.push_str(&options_text(&bundle.manifest.user_config, None));
    }
    text
}

/// A bundle as JSON.
pub fn inspected_json(bundle: &InspectedBundle, source: &str, outcome: &BundleOutcome) -> Json {
    let warnings = bundle.warnings.iter().map(ToString::to_string);
    let warnings: Vec<String> = warnings.chain(missing_entry_point(bundle)).collect();
    let mut json = json!({
        "source": source,
        "hash": bundle.hash.to_string(),
        "size": bundle.size,
        "files": bundle.files.len(),
        "signature": signature_json(&bundle.signature),
        "warnings": warnings,
        "options": options_json(&bundle.manifest.user_config, None),
    });
    json["manifest"] = manifest_json(&bundle.manifest);
    json["command"] = match outcome {
        BundleOutcome::Runs(stdio) => {
            server_text::command_line(stdio, LiteralText::Masked).join(" ").into()
        }
        BundleOutcome::NeedsConfig(_) | BundleOutcome::Fails(_) => Json::Null,
    };
    json["needsConfig"] = match outcome {
        BundleOutcome::NeedsConfig(keys) => keys.clone().into(),
        BundleOutcome::Runs(_) | BundleOutcome::Fails(_) => Json::Array(Vec::new()),
    };
    json["problem"] = match outcome {
        BundleOutcome::Fails(problem) => problem.to_string().into(),
        BundleOutcome::Runs(_) | BundleOutcome::NeedsConfig(_) => Json::Null,
    };
    json
}

/// The warning about a bundle whose server has no file to start.
fn missing_entry_point(bundle: &InspectedBundle) -> Option<String> {
    let entry_point = &bundle.manifest.server.entry_point;
    bundle
        .lacks_entry_point()
        .then(|| format!("the bundle does not contain `{entry_point}`, which starts its server"))
}

fn manifest_heading(manifest: &BundleManifest) -> String {
    format!(
        "{} {} by {}\n  {}\n",
        printable(manifest.title()),
        printable(&manifest.version),
        printable(&manifest.author),
        printable(&manifest.description)
    )
}

/// The manifest as JSON.
pub fn manifest_json(manifest: &BundleManifest) -> Json {
    let pairs = |pairs: &[(String, String)]| -> Json {
        let members: Map<String, Json> =
            pairs.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
        members.into()
    };
    json!({
        "manifestVersion": manifest.manifest_version,
        "name": manifest.name,
        "displayName": manifest.display_name,
        "version": manifest.version,
        "description": manifest.description,
        "author": manifest.author,
        "license": manifest.license,
        "serverType": manifest.server.kind.id(),
        "platforms": manifest.compatibility.platforms,
        "runtimes": pairs(&manifest.compatibility.runtimes),
        "clients": pairs(&manifest.compatibility.clients),
        "tools": manifest.tools,
        "privacyPolicies": manifest.privacy_policies,
    })
}

fn manifest_text(manifest: &BundleManifest) -> String {
    let mut text = line("Server", manifest.server.kind.id());
    let needs: Vec<String> = manifest
        .compatibility
        .runtimes
        .iter()
        .map(|(name, version)| printable(&format!("{name} {version}")))
        .collect();
    if !needs.is_empty() {
        text.push_str(&line("Needs", &needs.join(", ")));
    }
    if !manifest.compatibility.platforms.is_empty() {
        text.push_str(&line("Platforms", &printable(&manifest.compatibility.platforms.join(", "))));
    }
    if let Some(license) = &manifest.license {
        text.push_str(&line("License", &printable(license)));
    }
    if !manifest.tools.is_empty() {
        let shown: Vec<String> =
            manifest.tools.iter().take(MAX_TOOLS).map(|it| printable(it)).collect();
        let more = match manifest.tools.len().saturating_sub(MAX_TOOLS) {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        text.push_str(&line("Announces", &format!("{}{more}", shown.join(", "))));
    }
    for policy in &manifest.privacy_policies {
        text.push_str(&line("Privacy", &printable(policy)));
    }
    text
}

/// The command that runs, and what it may do.
pub fn outcome_text(outcome: &BundleOutcome) -> String {
    match outcome {
        BundleOutcome::Runs(stdio) => {
            let command = server_text::command_line(stdio, LiteralText::Masked).join(" ");
            let mut text = line("Runs", &command);
            if !stdio.env.is_empty() {
                let names: Vec<String> =
                    stdio.env.iter().map(|(name, _)| printable(name)).collect();
                text.push_str(&line("Environment", &names.join(", ")));
            }
            text.push_str(&line("Access", "it runs as you: it can read and change what you can"));
            text
        }
        BundleOutcome::NeedsConfig(keys) => {
            let keys: Vec<String> = keys.iter().map(|it| printable(it)).collect();
            line("Needs config", &keys.join(", "))
        }
        BundleOutcome::Fails(problem) => line("Cannot run", &printable(&problem.to_string())),
    }
}

fn line(label: &str, value: &str) -> String {
    format!("  {:<LABEL_WIDTH$}{value}\n", format!("{label}:"))
}

/// Options, one per line, with their values where they have some. Secrets are not shown.
pub fn options_text(options: &UserConfig, values: Option<&Map<String, Json>>) -> String {
    let mut text = String::new();
    for option in &options.options {
        let mut words = vec![option.kind.id().to_owned()];
        for (is_so, word) in
            [(option.multiple, "list"), (option.required, "required"), (option.sensitive, "secret")]
        {
            if is_so {
                words.push(word.to_owned());
            }
        }
        let title = printable(&option.title);
        let description = printable(&option.description);
        text.push_str(&format!(
            "    {} ({}): {title} - {description}\n",
            printable(&option.key),
            words.join(", ")
        ));
        if let Some(default) = option.default.as_ref().filter(|_| !option.sensitive) {
            text.push_str(&format!("      default: {}\n", printable(&default.to_string())));
        }
        if let Some(values) = values {
            text.push_str(&format!("      value: {}\n", value_text(option, values)));
        }
    }
    text
}

fn value_text(option: &UserOption, values: &Map<String, Json>) -> String {
    match values.get(&option.key).filter(|it| !is_missing(it)) {
        None => "not set".to_owned(),
        Some(value) if option.sensitive => {
            let texts: Vec<&str> = match value {
                Json::Array(items) => items.iter().filter_map(Json::as_str).collect(),
                Json::Null
                | Json::Bool(_)
                | Json::Number(_)
                | Json::String(_)
                | Json::Object(_) => value.as_str().into_iter().collect(),
            };
            let shown: Vec<String> =
                texts.iter().map(|it| masked_template(&Template::parse(it))).collect();
            shown.join(", ")
        }
        Some(value) => printable(&value.to_string()),
    }
}

/// Options as JSON, with their values where there are some. Of secrets, only whether they are set.
pub fn options_json(options: &UserConfig, values: Option<&Map<String, Json>>) -> Json {
    let one = |option: &UserOption| {
        let value = values.and_then(|it| it.get(&option.key)).filter(|it| !is_missing(it));
        let shown = value.filter(|_| !option.sensitive);
        json!({
            "key": option.key,
            "type": option.kind.id(),
            "title": option.title,
            "description": option.description,
            "required": option.required,
            "sensitive": option.sensitive,
            "multiple": option.multiple,
            "default": option.default.as_ref().filter(|_| !option.sensitive),
            "min": option.min,
            "max": option.max,
            "isSet": values.map(|_| value.is_some()),
            "value": shown,
        })
    };
    options.options.iter().map(one).collect()
}
