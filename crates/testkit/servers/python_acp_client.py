"""An editor on the Python library of the Agent Client Protocol: starts an agent and drives one session.

Usage: python_acp_client.py FOLDER AGENT
Prints what it saw, as one line of JSON.
"""

import asyncio
import json
import os
import sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, ClientCapabilities, RequestPermissionResponse

FOLDER, AGENT = sys.argv[1:]


class Editor:
    def __init__(self):
        self.seen = {"text": "", "asked": [], "kinds": [], "diff": None, "mode": None}
        self.is_slow = asyncio.Event()
        self.has_mode = asyncio.Event()

    def on_connect(self, connection):
        pass

    async def request_permission(self, session_id, tool_call, options, **rest):
        self.seen["asked"].append(tool_call.tool_call_id)
        change = tool_call.content[0]
        self.seen["diff"] = {"old": change.old_text, "new": change.new_text}
        once = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=once.option_id))

    async def session_update(self, session_id, update, **rest):
        match update.session_update:
            case "agent_message_chunk":
                self.seen["text"] += update.content.text
                if "Slow" in self.seen["text"]:
                    self.is_slow.set()
            case "tool_call":
                self.seen["kinds"].append(update.kind)
            case "current_mode_update":
                self.seen["mode"] = update.current_mode_id
                self.has_mode.set()


async def main() -> None:
    editor = Editor()
    seen = editor.seen
    async with spawn_agent_process(editor, AGENT, "acp", env=dict(os.environ), cwd=FOLDER) as (agent, process):
        hello = await agent.initialize(PROTOCOL_VERSION, ClientCapabilities())
        seen["agent"] = hello.agent_info.name
        session = (await agent.new_session(cwd=FOLDER, mcp_servers=[])).session_id
        done = await agent.prompt(session_id=session, prompt=[text_block("change a.txt")])
        seen["stop"] = done.stop_reason
        slow = asyncio.create_task(agent.prompt(session_id=session, prompt=[text_block("slow")]))
        await asyncio.wait_for(editor.is_slow.wait(), 30)
        await agent.cancel(session_id=session)
        seen["cancelled"] = (await slow).stop_reason
        await agent.set_session_mode(session_id=session, mode_id="acceptEdits")
        await asyncio.wait_for(editor.has_mode.wait(), 30)
        listed = await agent.list_sessions(cwd=FOLDER)
        seen["listed"] = [it.title for it in listed.sessions]
    print(json.dumps(seen))


asyncio.run(main())
