"""One conversation in `swb`: a server of this program, a permission callback and a hook."""

import asyncio

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    HookMatcher,
    PermissionResultAllow,
    ResultMessage,
    create_sdk_mcp_server,
    tool,
)


@tool("add", "Adds two numbers", {"a": int, "b": int})
async def add(arguments):
    return {"content": [{"type": "text", "text": str(arguments["a"] + arguments["b"])}]}


async def before_call(hook_input, tool_use_id, context):
    print(f"hook: {hook_input['tool_name']}")
    return {}


async def may_use(tool_name, arguments, context):
    print(f"permission: {tool_name}")
    return PermissionResultAllow()


async def main():
    options = ClaudeAgentOptions(
        cli_path="swb",
        mcp_servers={"calculator": create_sdk_mcp_server("calculator", tools=[add])},
        hooks={"PreToolUse": [HookMatcher(hooks=[before_call])]},
        can_use_tool=may_use,
    )
    async with ClaudeSDKClient(options) as client:
        await client.query("How much is 2 + 3?")
        async for message in client.receive_response():
            if isinstance(message, ResultMessage):
                print(f"result: {message.result}")


asyncio.run(main())
