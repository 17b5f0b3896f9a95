"""An MCP server without packages. Its tool `show` says how it was started."""

import json
import os
import sys

NAMES = ["CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_DATA", "CLAUDE_PROJECT_DIR", "NOTES_TOKEN"]

for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    if number is None:
        continue
    answer = {"jsonrpc": "2.0", "id": number}
    if method == "initialize":
        answer["result"] = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "notes", "version": "1"},
        }
    elif method == "tools/list":
        tool = {"name": "show", "description": "Says how it was started", "inputSchema": {"type": "object"}}
        answer["result"] = {"tools": [tool]}
    elif method == "tools/call":
        shown = {name: os.environ.get(name) for name in NAMES}
        shown["args"] = sys.argv[1:]
        shown["data"] = os.path.isdir(shown["CLAUDE_PLUGIN_DATA"])
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(shown)}]}
    else:
        answer["error"] = {"code": -32601, "message": "no such method"}
    print(json.dumps(answer), flush=True)
