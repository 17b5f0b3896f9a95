// One conversation in `swb`: a server of this program, a permission callback and a hook.

import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk';
import { z } from 'zod';

const add = tool('add', 'Adds two numbers', { a: z.number(), b: z.number() }, async ({ a, b }) => ({
    content: [{ type: 'text', text: String(a + b) }],
}));

const conversation = query({
    prompt: 'How much is 2 + 3?',
    options: {
        pathToClaudeCodeExecutable: 'swb',
        mcpServers: { calculator: createSdkMcpServer({ name: 'calculator', tools: [add] }) },
        hooks: {
            PreToolUse: [
                {
                    hooks: [
                        async (input) => {
                            console.log(`hook: ${input.tool_name}`);
                            return {};
                        },
                    ],
                },
            ],
        },
        canUseTool: async (name, input) => {
            console.log(`permission: ${name}`);
            return { behavior: 'allow', updatedInput: input };
        },
    },
});

for await (const message of conversation) {
    if (message.type === 'result') console.log(`result: ${message.result}`);
}
