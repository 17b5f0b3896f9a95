// Runs a program under the public TypeScript agent SDK, as a plan says, and prints what the SDK observed as JSON lines.
//
// Usage: agent_sdk_driver.mjs INSTALL-FOLDER PROGRAM PLAN
//
// `agent_sdk_driver.py` describes the plan. Keys of `options` are converted from snake_case. Beyond that:
//
//   elicitation  the answer to every elicitation

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, program, planText] = process.argv.slice(2);
const plan = JSON.parse(planText);
const require = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { query, createSdkMcpServer, tool } = await load('@anthropic-ai/claude-agent-sdk');
const { z } = await load('zod');

const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const READ_ONLY = { annotations: { readOnlyHint: true } };
const emit = (fields) => console.log(JSON.stringify(fields));
const text = (value) => ({ content: [{ type: 'text', text: value }] });
/** Takes the first answer; the last one repeats. */
const next = (answers) => (answers.length > 1 ? answers.shift() : answers[0]);

let session;
let turns = 0;
let isPartialSeen = false;
const background = [];
let callsInProgress = 0;
let peak = 0;
let releaseCalls;
const enoughCalls = new Promise((resolve) => (releaseCalls = resolve));

/** Starts the commands of this trigger, one after the other, beside the reader of messages. */
function fire(trigger) {
    const commands = (plan.commands ?? []).filter((it) => it.at === trigger);
    if (commands.length > 0) background.push(runCommands(commands));
}

async function runCommands(commands) {
    for (const { call, arguments: given = [] } of commands) {
        try {
            emit({ command: call, answer: (await session[call](...given)) ?? null });
        } catch (error) {
            emit({ command: call, error: String(error.message ?? error) });
        }
    }
}

async function settled(trigger) {
    fire(trigger);
    while (background.length > 0) await background.shift();
}

function show(message) {
    if (message.type === 'assistant' || message.type === 'user') {
        const { message: inner, ...rest } = message;
        emit({ message: { ...rest, ...inner, type: message.type } });
    } else {
        emit({ message });
    }
    if (message.type === 'stream_event' && !isPartialSeen) {
        isPartialSeen = true;
        fire('partial');
    }
}

function hookMatcher(event, { matcher, outputs = [{}], timeout, raises }) {
    const callback = async (input, toolUseId) => {
        emit({ hook: event, input, tool_use_id: toolUseId ?? null });
        if (raises) throw new Error(raises);
        return next(outputs);
    };
    return { matcher: matcher ?? undefined, hooks: [callback], timeout };
}

async function permission(name, input, { signal, suggestions, toolUseID, ...rest }) {
    emit({ permission: name, input, context: { suggestions, tool_use_id: toolUseID, ...rest } });
    fire('permission');
    const answer = next(plan.permissions);
    if (answer === 'hold') {
        await new Promise((_, reject) => {
            signal.addEventListener('abort', () => {
                emit({ cancelled: 'permission' });
                reject(new Error('aborted'));
            });
        });
    }
    if (answer.behavior === 'deny') return answer;
    const updates = answer.updated_permissions?.map(({ rules, destination = 'session', ...update }) => ({
        ...update,
        destination,
        ...(rules ? { rules: rules.map((toolName) => ({ toolName })) } : {}),
    }));
    return {
        behavior: 'allow',
        updatedInput: answer.updated_input ?? input,
        ...(updates ? { updatedPermissions: updates } : {}),
    };
}

function server(name) {
    const number = z.number();
    const made = createSdkMcpServer({
        // Its own name is not the name that it is configured with.
        name: `${name}-of-typescript`,
        version: '1.0.0',
        tools: [
            tool('add', 'Adds two numbers', { a: number, b: number }, async ({ a, b }) => text(String(a + b)), READ_ONLY),
            tool('fail', 'Fails', {}, async () => ({ ...text('it failed'), isError: true })),
            tool('crash', 'Throws an error', {}, async () => {
                throw new Error('it crashed');
            }),
            tool('image', 'Returns an image', {}, async () => ({
                content: [{ type: 'image', data: PIXEL, mimeType: 'image/png' }],
            })),
            tool(
                'measure',
                'Returns the length of a text, and the pairs in it',
                { text: z.string(), peers: number },
                async (given) => {
                    // Waits until so many calls are in progress: calls that do not overlap would never end.
                    callsInProgress += 1;
                    peak = Math.max(peak, callsInProgress);
                    if (callsInProgress >= given.peers) releaseCalls();
                    await enoughCalls;
                    callsInProgress -= 1;
                    const pairs = new Set(given.text.match(/../gs));
                    return text(`${given.text.length} ${[...pairs].sort().join(' ')}`);
                },
                READ_ONLY,
            ),
            tool('slow', 'Returns after some seconds', { seconds: number }, async ({ seconds }, extra) => {
                fire('tool');
                await new Promise((resolve, reject) => {
                    const timer = setTimeout(resolve, seconds * 1000);
                    extra?.signal?.addEventListener('abort', () => {
                        clearTimeout(timer);
                        emit({ cancelled: 'slow' });
                        reject(new Error('cancelled'));
                    });
                });
                return text(`slept ${seconds}`);
            }),
            tool('big', 'Returns a text of this size', { bytes: number }, async ({ bytes }) => text('x'.repeat(bytes))),
            tool(
                'decide',
                'Answers permission requests',
                { tool_name: z.string(), input: z.any(), tool_use_id: z.string() },
                async (given) => {
                    emit({ decide: given });
                    return text(JSON.stringify(plan.decision));
                },
            ),
            tool('grow', 'Adds the tool `grown`', {}, async () => {
                made.instance.registerTool('grown', { description: 'Was added later' }, async () => text('I am new'));
                return text('grown');
            }),
            tool('ask', 'Asks the user for a name', {}, async () => {
                const answer = await made.instance.server.elicitInput({
                    message: 'What is your name?',
                    requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
                });
                return text(JSON.stringify(answer));
            }),
        ],
    });
    return made;
}

function options() {
    const camel = (key) => key.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
    const given = Object.fromEntries(Object.entries(plan.options ?? {}).map(([key, value]) => [camel(key), value]));
    const { continueConversation, addDirs, mcpServers, ...rest } = given;
    const own = Object.fromEntries((plan.servers ?? []).map((name) => [name, server(name)]));
    return {
        ...rest,
        ...(continueConversation ? { continue: true } : {}),
        ...(addDirs ? { additionalDirectories: addDirs } : {}),
        ...(mcpServers || plan.servers ? { mcpServers: { ...mcpServers, ...own } } : {}),
        ...(plan.hooks
            ? {
                    hooks: Object.fromEntries(
                        Object.entries(plan.hooks).map(([event, matchers]) => [event, matchers.map((it) => hookMatcher(event, it))]),
                    ),
                }
            : {}),
        ...(plan.permissions ? { canUseTool: permission } : {}),
        ...(plan.elicitation
            ? {
                    onElicitation: async (request) => {
                        emit({ elicitation: request });
                        return plan.elicitation;
                    },
                }
            : {}),
        pathToClaudeCodeExecutable: program,
        stderr: (line) => emit({ stderr: line }),
    };
}

const asMessage = (prompt) =>
    typeof prompt === 'string' ? { type: 'user', message: { role: 'user', content: prompt } } : prompt;

async function* allPrompts() {
    for (const prompt of plan.prompts) yield asMessage(prompt);
}

async function run() {
    if (!plan.client) {
        session = query({ prompt: plan.stream ? allPrompts() : plan.prompts[0], options: options() });
        for await (const message of session) show(message);
        await settled('end');
        return;
    }
    let endTurn;
    let start;
    const started = new Promise((resolve) => (start = resolve));
    const prompts = (async function* () {
        await started;
        for (const prompt of plan.prompts) {
            yield asMessage(prompt);
            await new Promise((resolve) => (endTurn = resolve));
        }
    })();
    session = query({ prompt: prompts, options: options() });
    await settled('start');
    start();
    for await (const message of session) {
        show(message);
        if (message.type !== 'result') continue;
        turns += 1;
        // The commands of a turn run while messages are read, and the next prompt waits for them.
        settled(`turn:${turns}`).then(() => endTurn());
    }
}

try {
    await run();
} catch (error) {
    emit({ raised: error.name ?? 'Error', text: String(error.message ?? error) });
}
emit({ peak });
emit({ end: true });
process.exit(0);
