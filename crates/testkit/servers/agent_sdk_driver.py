"""Runs a program under the public Python agent SDK, as a plan says, and prints what the SDK observed as JSON lines.

Usage: agent_sdk_driver.py PROGRAM PLAN

The plan is a JSON object; `agent_sdk_driver.mjs` reads the same one:

  prompts      strings, or whole user messages
  client       true: one turn per prompt on one client; otherwise one `query`
  stream       true: the prompts of a `query` are an async iterable
  options      options of the SDK, in its spelling
  hooks        {event: [{matcher, outputs: [...], timeout, on_failure, raises}]}; the last output repeats
  permissions  results of the permission callback, in order; the last one repeats; "hold" never answers
  servers      names of servers that this process hosts
  decision     what the tool `decide` of a hosted server answers to a permission request
  commands     [{at, call, arguments}]: methods of the client, called at `start`, `partial`, `permission`, `tool`, or
               `turn:N`; `request` sends a raw control request
"""

import asyncio
import dataclasses
import json
import sys

from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    PermissionResultDeny,
    PermissionUpdate,
    ResultMessage,
    StreamEvent,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolAnnotations,
    ToolResultBlock,
    ToolUseBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)
from claude_agent_sdk.types import PermissionRuleValue

BLOCKS = {TextBlock: "text", ThinkingBlock: "thinking", ToolUseBlock: "tool_use", ToolResultBlock: "tool_result"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
READ_ONLY = ToolAnnotations(readOnlyHint=True)


def emit(**fields):
    print(json.dumps(fields, default=str), flush=True)


class Driver:
    def __init__(self, program, plan):
        self.program = program
        self.plan = plan
        self.client = None
        self.turns = 0
        self.is_partial_seen = False
        self.background = []
        self.permissions = list(plan.get("permissions", []))
        self.calls_in_progress = 0
        self.peak = 0
        self.enough_calls = asyncio.Event()

    # What the SDK observed.

    def show(self, message):
        if isinstance(message, SystemMessage):
            emit(message={"type": "system", "class": type(message).__name__, **message.data})
        elif isinstance(message, StreamEvent):
            emit(message={"type": "stream_event", "event": message.event})
            self.fire_partial()
        elif isinstance(message, AssistantMessage):
            emit(message={"type": "assistant", **self.fields(message)})
        elif isinstance(message, UserMessage):
            emit(message={"type": "user", **self.fields(message)})
        elif isinstance(message, ResultMessage):
            emit(message={"type": "result", **self.fields(message)})
        else:
            emit(message={"type": type(message).__name__, **self.fields(message)})

    def fields(self, message):
        fields = dataclasses.asdict(message)
        if isinstance(fields.get("content"), list):
            fields["content"] = [
                {"type": BLOCKS.get(type(block), "other"), **dataclasses.asdict(block)} for block in message.content
            ]
        return fields

    # Callbacks.

    def hook(self, event, matcher):
        outputs = list(matcher.get("outputs", [{}]))

        async def callback(hook_input, tool_use_id, _context):
            emit(hook=event, input=hook_input, tool_use_id=tool_use_id)
            if matcher.get("raises"):
                raise RuntimeError(matcher["raises"])
            return outputs.pop(0) if len(outputs) > 1 else outputs[0]

        more = {"timeout": matcher["timeout"]} if "timeout" in matcher else {}
        if "on_failure" in matcher:
            more["on_failure"] = matcher["on_failure"]
        return HookMatcher(matcher=matcher.get("matcher"), hooks=[callback], **more)

    async def permission(self, tool_name, tool_input, context):
        emit(permission=tool_name, input=tool_input, context=dataclasses.asdict(context))
        self.fire("permission")
        answer = self.permissions.pop(0) if len(self.permissions) > 1 else self.permissions[0]
        if answer == "hold":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                emit(cancelled="permission")
                raise
        if answer["behavior"] == "deny":
            return PermissionResultDeny(message=answer["message"], interrupt=answer.get("interrupt", False))
        updates = [
            PermissionUpdate(
                type=update["type"],
                rules=[PermissionRuleValue(tool_name=rule, rule_content=None) for rule in update.get("rules", [])],
                behavior=update.get("behavior"),
                mode=update.get("mode"),
                destination=update.get("destination", "session"),
            )
            for update in answer.get("updated_permissions", [])
        ]
        return PermissionResultAllow(updated_input=answer.get("updated_input"), updated_permissions=updates or None)

    # The servers of this process.

    def server(self, name):
        @tool("add", "Adds two numbers", {"a": float, "b": float}, annotations=READ_ONLY)
        async def add(arguments):
            return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}

        @tool("fail", "Fails", {})
        async def fail(_arguments):
            return {"content": [{"type": "text", "text": "it failed"}], "is_error": True}

        @tool("crash", "Raises an exception", {})
        async def crash(_arguments):
            raise RuntimeError("it crashed")

        @tool("image", "Returns an image", {})
        async def image(_arguments):
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}

        @tool("measure", "Returns the length of a text, and the pairs in it", {"text": str, "peers": int}, annotations=READ_ONLY)
        async def measure(arguments):
            # Waits until so many calls are in progress: calls that do not overlap would never end.
            self.calls_in_progress += 1
            self.peak = max(self.peak, self.calls_in_progress)
            if self.calls_in_progress >= arguments["peers"]:
                self.enough_calls.set()
            await self.enough_calls.wait()
            self.calls_in_progress -= 1
            text = arguments["text"]
            pairs = sorted({text[at : at + 2] for at in range(0, len(text), 2)})
            return {"content": [{"type": "text", "text": f"{len(text)} {' '.join(pairs)}"}]}

        @tool("slow", "Returns after some seconds", {"seconds": float})
        async def slow(arguments):
            self.fire("tool")
            try:
                await asyncio.sleep(arguments["seconds"])
            except asyncio.CancelledError:
                emit(cancelled="slow")
                raise
            return {"content": [{"type": "text", "text": f"slept {arguments['seconds']}"}]}

        @tool("big", "Returns a text of this size", {"bytes": int})
        async def big(arguments):
            return {"content": [{"type": "text", "text": "x" * arguments["bytes"]}]}

        question = {"type": "object", "properties": {}, "additionalProperties": True}

        @tool("decide", "Answers permission requests", question)
        async def decide(arguments):
            emit(decide=arguments)
            return {"content": [{"type": "text", "text": json.dumps(self.plan["decision"])}]}

        # Its own name is not the name that it is configured with.
        return create_sdk_mcp_server(f"{name}-of-python", tools=[add, fail, crash, image, measure, slow, big, decide])

    # Commands.

    def fire(self, trigger):
        """Starts the commands of this trigger, one after the other, beside the reader of messages."""
        commands = [it for it in self.plan.get("commands", []) if it["at"] == trigger]
        if commands:
            self.background.append(asyncio.create_task(self.run_commands(commands)))

    def fire_partial(self):
        if not self.is_partial_seen:
            self.is_partial_seen = True
            self.fire("partial")

    async def run_commands(self, commands):
        for command in commands:
            name, arguments = command["call"], command.get("arguments", [])
            try:
                if name == "request":
                    answer = await self.client._query._send_control_request(*arguments)
                else:
                    answer = await getattr(self.client, name)(*arguments)
                emit(command=name, answer=answer)
            except Exception as error:
                emit(command=name, error=str(error))

    async def settled(self, trigger):
        self.fire(trigger)
        while self.background:
            await self.background.pop(0)

    # The run.

    def options(self):
        more = dict(self.plan.get("options", {}))
        servers = dict(more.pop("mcp_servers", {}))
        servers.update({name: self.server(name) for name in self.plan.get("servers", [])})
        if servers:
            more["mcp_servers"] = servers
        if "hooks" in self.plan:
            more["hooks"] = {
                event: [self.hook(event, matcher) for matcher in matchers]
                for event, matchers in self.plan["hooks"].items()
            }
        if "permissions" in self.plan:
            more["can_use_tool"] = self.permission
        return ClaudeAgentOptions(cli_path=self.program, stderr=lambda line: emit(stderr=line), **more)

    async def prompts(self):
        for prompt in self.plan["prompts"]:
            if isinstance(prompt, str):
                prompt = {"type": "user", "message": {"role": "user", "content": prompt}}
            yield prompt

    async def run(self):
        if self.plan.get("client"):
            async with ClaudeSDKClient(self.options()) as client:
                self.client = client
                await self.settled("start")
                for prompt in self.plan["prompts"]:
                    await client.query(prompt)
                    async for message in client.receive_response():
                        self.show(message)
                    self.turns += 1
                    await self.settled(f"turn:{self.turns}")
        else:
            is_stream = self.plan.get("stream") or "permissions" in self.plan
            prompt = self.prompts() if is_stream else self.plan["prompts"][0]
            async for message in query(prompt=prompt, options=self.options()):
                self.show(message)
        emit(peak=self.peak)


async def main():
    plan = json.loads(sys.argv[2])
    try:
        await Driver(sys.argv[1], plan).run()
    except Exception as error:
        emit(raised=type(error).__name__, text=str(error))
    emit(end=True)


asyncio.run(main())
