import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RoomModel } from '../../src/model/room.js';
import { clip } from '../../src/model/text.js';
import { ends } from '../support/ends.js';
import { answered, argumentsText, asked, Calls, isPreparation, noticed } from '../../src/model/calls.js';
import { readEnvelope } from '../../src/model/envelope.js';
import { argumentsLine, outcomeLine } from '../../src/model/reading.js';

test('what is asked reads as one would type it', () => {
  const args = { y: 2, s: 'a b', t: 'plain', n: null, o: { a: [1] } };
  assert.equal(argumentsText(args), 'y=2 s="a b" t=plain n=null o={"a":[1]}');
  assert.equal(argumentsText([1]), '');
  assert.deepEqual(asked({ method: 'tools/call', params: { name: 'move', arguments: { x: 1 } } }), { what: 'move', details: 'x=1' });
  assert.deepEqual(asked({ method: 'resources/read', params: { uri: 'file:///a' } }), { what: 'resources/read', details: 'file:///a' });
  assert.deepEqual(asked({ method: 'elicitation/create', params: { message: 'Really?' } }), { what: 'asks', details: 'Really?' });
  assert.deepEqual(asked({ method: 'tools/call', params: 7 }), { what: 'tools/call', details: '' });
});

test('an answer is told by what it holds', () => {
  const told = (result) => answered({ result });
  assert.equal(told({ content: [{ type: 'text', text: 'a' }, { type: 'text', text: 'b' }] }), 'a\nb');
  assert.equal(told({ content: [{ type: 'image', mimeType: 'image/png', data: 'AAAABBBB' }] }), '[image image/png, 6 bytes]');
  assert.equal(told({ content: [{ type: 'resource', resource: { uri: 'f', text: 'inside' } }] }), 'inside');
  assert.equal(told({ content: [null, 7, {}] }), 'null\n7\n{}');
  assert.equal(told({ content: [], structuredContent: { n: 1 } }), '{"n":1}');
  assert.equal(told({ tools: [{ name: 'move' }, { name: 'stop' }, 5] }), 'move, stop');
  assert.equal(told({ prompts: [] }), 'none');
  assert.equal(told({ serverInfo: { name: 'rover' }, protocolVersion: '2025-06-18' }), 'rover, MCP 2025-06-18');
  assert.equal(told({ action: 'accept', content: { colour: 'red' } }), 'accept colour=red');
  assert.equal(told({ contents: [{ uri: 'f', text: 'inside' }] }), 'inside');
  assert.equal(told({ messages: [{ role: 'user', content: { type: 'text', text: 'hi' } }] }), 'hi');
  assert.deepEqual([told({}), told(7), told(undefined)], ['', '', '']);
  assert.equal(answered({ error: { code: -32601, message: 'no such method' } }), 'no such method (-32601)');
  assert.equal(answered({ error: null }), 'an error without a message');
});

test('getting ready is told apart from doing', () => {
  const ready = ['initialize', 'notifications/initialized', 'ping', 'tools/list', 'resources/templates/list', 'notifications/tools/list_changed'];
  for (const method of ready) assert.equal(isPreparation(method), true, method);
  for (const method of ['tools/call', 'resources/read', 'notifications/message']) assert.equal(isPreparation(method), false, method);
});

let number = 0;

/** An envelope to some. */
function envelope(from, to, payload) {
  const id = `e${(number += 1)}`;
  return { id, ts: '', topic: 't', from, to, kind: 'mcp', payload: { jsonrpc: '2.0', ...payload }, raw: '', at: number };
}
const request = (from, to, id, progressToken) => envelope(from, [to], { id, method: 'tools/call', params: { name: 'x', _meta: { progressToken } } });
const progress = (from, to, progressToken) => envelope(from, to, { method: 'notifications/progress', params: { progressToken, progress: 1 } });
const cancelled = (from, to, requestId) => envelope(from, to, { method: 'notifications/cancelled', params: { requestId } });

test('a notification without correlation means the newest open call that it names', () => {
  const calls = new Calls();
  const [first, second, third] = [request('alice', 'bob', 1, 'p'), request('carol', 'bob', 1, 'p'), request('alice', 'bob', '1', 'p')].map((each) => calls.ask(each));
  const told = (each) => calls.notice(each)?.id;
  assert.equal(told(progress('bob', ['carol'], 'p')), second.id);
  assert.equal(told(progress('bob', [], 'p')), third.id);
  assert.equal(told(progress('bob', ['carol', 'alice'], 'p')), third.id);
  assert.equal(told(progress('eve', [], 'p')), undefined);
  assert.equal(told(progress('bob', [], 'q')), undefined);
  assert.equal(told(cancelled('alice', ['bob'], '1')), third.id, 'a text is no number');
  assert.equal(told(progress('bob', ['alice'], 'p')), first.id, 'what has ended is meant no more');
  assert.equal(told(cancelled('alice', [], 1)), first.id);
  assert.deepEqual([first.state, second.state, third.state], ['cancelled', 'running', 'cancelled']);
  assert.deepEqual(calls.left('bob', envelope('system:gateway', [], {})), [second]);
  assert.deepEqual([calls.open.size, calls.byCallee.size, calls.left('bob', envelope('x', [], {})).length], [0, 0, 0]);
});

test('notifications and leaves are folded soon, however many calls are open', async () => {
  const left = await ends('model/calls.js', ({ Calls: Table }) => {
    const calls = new Table();
    const envelope = (id, from, to, method, params) => ({ id, from, to, at: 0, payload: { id, method, params } });
    for (let at = 0; at < 150_000; at += 1) calls.ask(envelope(`r${at}`, 'alice', ['bob'], 'tools/call', { _meta: { progressToken: 'p' } }));
    for (let at = 0; at < 150_000; at += 1) {
      calls.notice(envelope(`p${at}`, 'bob', ['carol'], 'notifications/progress', { progressToken: 'p', progress: 1 }));
      calls.left('carol', envelope(`l${at}`, 'system:gateway', [], ''));
    }
    return calls.left('bob', envelope('l', 'system:gateway', [], '')).length;
  });
  assert.equal(left, 150_000);
});

test('cards and notices have every digit as it was sent', () => {
  const big = '9007199254740993';
  const read = (from, to, payload) => readEnvelope(
    `{"protocol":"mcp-x/v0","id":"e${(number += 1)}","ts":"2025-08-17T14:00:00Z","from":"${from}","to":["${to}"],"kind":"mcp","payload":${payload}}`, { topic: 't' });
  const calls = new Calls();
  const call = calls.ask(read('alice', 'bob', `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":${big},"f":1.0}}}`));
  assert.equal(argumentsLine(call), `n=${big} f=1.0`);
  const answer = read('bob', 'alice', `{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"n":${big}}}}`);
  calls.answer({ ...answer, correlationId: call.id });
  assert.equal(outcomeLine(call), `{"n":${big}}`);
  assert.equal(noticed(read('bob', 'alice', `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":${big}}}}`)), `info: {"n":${big}}`);
});

test('lines about a call keep every digit', () => {
  const room = new RoomModel({ topic: 'room:t', me: 'me' });
  const say = (id, from, to, payload, more = '') => room.apply(readEnvelope(
    `{"protocol":"mcp-x/v0","id":"${id}","ts":"2025-08-17T14:00:00Z","from":"${from}","to":["${to}"],"kind":"mcp",${more}"payload":${payload}}`, { topic: 'room:t' }));
  say('q', 'me', 'bob', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"n":9007199254740993,"f":1.0}}}');
  say('r', 'bob', 'me', '{"jsonrpc":"2.0","id":1,"result":{"content":[],"structuredContent":{"n":9007199254740993}}}', '"correlation_id":"q",');
  say('n', 'bob', 'me', '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":9007199254740993}}}');
  const call = room.calls.get('q');
  assert.equal(argumentsLine(call), 'n=9007199254740993 f=1.0');
  assert.equal(outcomeLine(call), '{"n":9007199254740993}');
  assert.equal(noticed(room.envelopes.get('n')), 'info: {"n":9007199254740993}');
});

test('what is no text where one is expected breaks nothing', () => {
  const odd = JSON.parse('{"toString":1,"valueOf":2}');
  assert.equal(answered({ error: { code: odd, message: odd } }), 'an error without a message ({"toString":1,"valueOf":2})');
  assert.equal(answered({ result: { content: [odd] } }), '{"toString":1,"valueOf":2}');
  assert.equal(clip(odd, 10), '');
});
