// An MCP server on standard input and output that tries to be markup: its tools, their descriptions, their arguments and what they answer.

import { createInterface } from 'node:readline';

export const EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>\'"`{{7*7}}';

const text = (/** @type {string} */ words) => ({ type: 'text', text: words });
const TOOLS = [
  {
    name: 'evil<b>tool', title: `Title ${EVIL}`, description: `Description ${EVIL} [link](javascript:window.pwned=3)`,
    inputSchema: {
      type: 'object', title: EVIL, description: EVIL, required: ['word'],
      properties: { word: { type: 'string', title: `Word ${EVIL}`, description: EVIL, default: EVIL }, '<i>pick</i>': { enum: [EVIL, 'plain'] } },
    },
    annotations: { title: EVIL, readOnlyHint: true },
  },
];
const RESULT = {
  content: [
    text(`Result ${EVIL}`),
    { ...text(`# ${EVIL}\n\n[click](javascript:window.pwned=4) ![x](https://evil.example/pixel.png)`), annotations: { audience: ['user'] } },
    { type: 'image', mimeType: 'text/html', data: Buffer.from('<script>window.pwned=5</script>').toString('base64') },
    { type: 'image', mimeType: 'image/svg+xml', data: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" onload="window.pwned=6"/>').toString('base64') },
    { type: 'audio', mimeType: '"><script>', data: 'AAAA' },
    { type: 'resource_link', uri: 'javascript:window.pwned=7', name: EVIL, description: EVIL },
    { type: 'resource', resource: { uri: `file:///${EVIL}`, mimeType: 'text/html', text: '<script>window.pwned=8</script>' } },
    { type: EVIL, text: EVIL },
  ],
  structuredContent: { [EVIL]: EVIL, rows: [{ '<u>a</u>': EVIL }, { '<u>a</u>': 'https://evil.example/' }] },
};

if (process.argv[1] === new URL(import.meta.url).pathname) {
  const answer = (/** @type {any} */ id, /** @type {any} */ result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
  createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id === undefined) return;
    if (method === 'initialize') {
      const serverInfo = { name: EVIL, title: EVIL, version: EVIL };
      answer(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo, instructions: EVIL });
    } else if (method === 'tools/list') {
      answer(id, { tools: TOOLS });
    } else if (method === 'tools/call') {
      answer(id, RESULT);
    } else {
      answer(id, {});
    }
  });
}
