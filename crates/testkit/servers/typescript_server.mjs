// A server of the modern era, written with the TypeScript SDK v2: one of each thing that tests ask for.
//
// Usage: typescript_server.mjs FOLDER stdio | http PORT
// FOLDER holds node_modules; a script finds packages only above its own folder, which is another one.

import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [folder, transport, port] = process.argv.slice(2);
const need = createRequire(join(folder, 'package.json'));
const { McpServer, acceptedContent, createMcpHandler, fromJsonSchema, inputRequired, inputResponse } =
    need('@modelcontextprotocol/server');

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) });

// Over HTTP every request has a server of its own, so what they share lies outside.
let isGrown = false;
let tellListeners = () => {};

function server() {
    const server = new McpServer(
        { name: 'typescript', version: '1.0.0' },
        { capabilities: { tools: { listChanged: true } } },
    );

    server.registerTool(
        'echo',
        { description: 'Says what it was told.', inputSchema: fromJsonSchema(object({ text: { type: 'string' } })) },
        async (given) => text(given.text),
    );

    server.registerTool('ask', { description: 'Asks for a name and greets its owner.' }, async (context) => {
        const responses = context.mcpReq.inputResponses;
        const answer = inputResponse(responses, 'name');
        if (answer.kind === 'missing') {
            const requestedSchema = object({ name: { type: 'string' } });
            const question = inputRequired.elicit({ message: 'What is your name?', requestedSchema });
            return inputRequired({ inputRequests: { name: question } });
        }
        const accepted = acceptedContent(responses, 'name');
        return text(accepted ? `hello ${accepted.name}` : answer.action);
    });

    const addGrown = () =>
        server.registerTool('grown', { description: 'Was not there before.' }, async () => text('grown'));
    if (isGrown) addGrown();
    server.registerTool('grow', { description: 'Adds a tool and notifies subscribed clients.' }, async () => {
        if (!isGrown) {
            isGrown = true;
            addGrown();
            tellListeners();
        }
        return text('done');
    });

    server.registerResource('one', 'note://one', { mimeType: 'text/plain' }, async (uri) => ({
        contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'the first note' }],
    }));

    server.registerPrompt(
        'greeting',
        { description: 'A greeting.', argsSchema: fromJsonSchema(object({ name: { type: 'string' } })) },
        ({ name }) => ({ messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}.` } }] }),
    );
    return server;
}

if (transport === 'stdio') {
    // Here one server lives as long as its connection, and registering a tool tells its listeners.
    const { serveStdio } = need('@modelcontextprotocol/server/stdio');
    serveStdio(server);
} else {
    const { toNodeHandler } = need('@modelcontextprotocol/node');
    const handler = createMcpHandler(server);
    tellListeners = () => handler.notify.toolsChanged();
    createServer(toNodeHandler(handler)).listen(Number(port), '127.0.0.1');
}
