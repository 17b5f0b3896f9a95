// An editor on the TypeScript library of the Agent Client Protocol: starts an agent and drives one session.
//
// Usage: typescript_acp_client.mjs PACKAGES FOLDER AGENT
// PACKAGES holds node_modules; a script finds packages only above its own folder, which is another one.
// Prints what it saw, as one line of JSON.

import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { pathToFileURL } from 'node:url';

const [packages, folder, program] = process.argv.slice(2);
const entry = join(packages, 'node_modules', '@agentclientprotocol', 'sdk', 'dist', 'v1', 'stable', 'acp.js');
const { PROTOCOL_VERSION, client, methods, ndJsonStream } = await import(pathToFileURL(entry).href);

const agent = spawn(program, ['acp'], { cwd: folder, stdio: ['pipe', 'pipe', 'inherit'] });
const seen = { text: '', asked: [], kinds: [], diff: null, mode: null };
const slow = Promise.withResolvers?.() ?? deferred();
const mode = Promise.withResolvers?.() ?? deferred();

function deferred() {
    let resolve;
    const promise = new Promise((it) => (resolve = it));
    return { promise, resolve };
}

const editor = client({ name: 'editor' })
    .onRequest(methods.client.session.requestPermission, ({ params }) => {
        seen.asked.push(params.toolCall.toolCallId);
        const change = params.toolCall.content[0];
        seen.diff = { old: change.oldText, new: change.newText };
        const once = params.options.find((it) => it.kind === 'allow_once');
        return { outcome: { outcome: 'selected', optionId: once.optionId } };
    })
    .onNotification(methods.client.session.update, ({ params: { update } }) => {
        if (update.sessionUpdate === 'agent_message_chunk') {
            seen.text += update.content.text;
            if (seen.text.includes('Slow')) slow.resolve();
        } else if (update.sessionUpdate === 'tool_call') {
            seen.kinds.push(update.kind);
        } else if (update.sessionUpdate === 'current_mode_update') {
            seen.mode = update.currentModeId;
            mode.resolve();
        }
    });

const stream = ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
await editor.connectWith(stream, async (context) => {
    const hello = await context.request(methods.agent.initialize, {
        protocolVersion: PROTOCOL_VERSION,
        clientCapabilities: {},
    });
    seen.agent = hello.agentInfo.name;
    const { sessionId } = await context.request(methods.agent.session.new, { cwd: folder, mcpServers: [] });
    const prompt = (text) =>
        context.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: 'text', text }] });
    seen.stop = (await prompt('change a.txt')).stopReason;
    const running = prompt('slow');
    await slow.promise;
    await context.notify(methods.agent.session.cancel, { sessionId });
    seen.cancelled = (await running).stopReason;
    await context.request(methods.agent.session.setMode, { sessionId, modeId: 'acceptEdits' });
    await mode.promise;
    const listed = await context.request(methods.agent.session.list, { cwd: folder });
    seen.listed = listed.sessions.map((it) => it.title);
});
console.log(JSON.stringify(seen));
agent.stdin.end();
