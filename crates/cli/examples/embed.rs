//! One conversation in `swb` without an SDK: a server of this program, a permission callback and a hook.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Command, Stdio};

use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let mut program = Command::new("swb")
        .args(["--input-format", "stream-json", "--output-format", "stream-json", "--verbose"])
        .args(["--permission-prompt-tool", "stdio"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = program.stdin.take().ok_or("the input is piped")?;
    let stdout = program.stdout.take().ok_or("the output is piped")?;
    let hooks = json!({"PreToolUse": [{"matcher": null, "hookCallbackIds": ["before_call"]}]});
    let initialize =
        json!({"subtype": "initialize", "hooks": hooks, "sdkMcpServers": ["calculator"]});
    let prompt = json!({"role": "user", "content": "How much is 2 + 3?"});
    for frame in [
        json!({"type": "control_request", "request_id": "1", "request": initialize}),
        json!({"type": "user", "message": prompt}),
    ] {
        send(&mut stdin, &frame)?;
    }
    for line in BufReader::new(stdout).lines() {
        let frame: Value = serde_json::from_str(&line?)?;
        match frame["type"].as_str() {
            Some("control_request") => {
                let answer = answer(&frame["request"]);
                let request_id = &frame["request_id"];
                let response =
                    json!({"subtype": "success", "request_id": request_id, "response": answer});
                send(&mut stdin, &json!({"type": "control_response", "response": response}))?;
            }
            Some("result") => {
                println!("result: {}", frame["result"].as_str().unwrap_or_default());
                break;
            }
            _ => {}
        }
    }
    // The end of the input ends the session.
    drop(stdin);
    program.wait()?;
    Ok(())
}

fn send(stdin: &mut ChildStdin, frame: &Value) -> std::io::Result<()> {
    writeln!(stdin, "{frame}")
}

/// The answer to a request of the session.
fn answer(request: &Value) -> Value {
    match request["subtype"].as_str() {
        Some("hook_callback") => {
            println!("hook: {}", request["input"]["tool_name"].as_str().unwrap_or_default());
            json!({})
        }
        Some("can_use_tool") => {
            println!("permission: {}", request["tool_name"].as_str().unwrap_or_default());
            json!({"behavior": "allow", "updatedInput": request["input"]})
        }
        Some("mcp_message") => json!({"mcp_response": serve(&request["message"])}),
        _ => json!({}),
    }
}

/// The answer of the server `calculator` to a message.
fn serve(message: &Value) -> Value {
    let number = json!({"type": "number"});
    let schema = json!({"type": "object", "properties": {"a": number, "b": number}});
    let result = match message["method"].as_str() {
        Some("initialize") => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "calculator", "version": "1.0.0"},
        }),
        Some("tools/list") => json!({"tools": [
            {"name": "add", "description": "Adds two numbers", "inputSchema": schema},
        ]}),
        Some("tools/call") => {
            let arguments = &message["params"]["arguments"];
            let sum = arguments["a"].as_i64().zip(arguments["b"].as_i64()).map(|(a, b)| a + b);
            let text = sum.map_or_else(|| "not two numbers".to_owned(), |sum| sum.to_string());
            json!({"content": [{"type": "text", "text": text}], "isError": sum.is_none()})
        }
        _ => json!({}),
    };
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}
