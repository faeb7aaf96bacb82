import assert from 'node:assert/strict';
import { test } from 'node:test';

import { stringifyExact } from '../../src/model/exact.js';
import { RpcError } from '../../src/net/rpc.js';
import { CLIENT_CAPABILITIES, Person } from '../../src/net/person.js';
import { Hall, until } from '../support/hall.js';

/** A person and an agent in one room. The person's clock is turned by hand. */
async function scene() {
  const hall = new Hall();
  const me = await hall.join('me', CLIENT_CAPABILITIES);
  /** @type {(() => void)[]} */
  const clocks = [];
  const every = (/** @type {number} */ _, /** @type {() => void} */ fn) => {
    clocks.push(fn);
    return () => void clocks.splice(clocks.indexOf(fn), 1);
  };
  const person = new Person({ peer: me.peer, room: me.room, every });
  // A view that shows every note at once, unless the person does not look.
  const eyes = { open: true };
  person.subscribe(() => eyes.open && person.mark('seen'));
  const agent = await hall.join('agent');
  const ask = (/** @type {string} */ method, /** @type {any} */ params, /** @type {any} */ how = {}) => {
    const answer = agent.peer.request('me', method, params, how);
    answer.catch(() => {});
    return answer;
  };
  return { hall, me, person, agent, ask, clocks, eyes };
}

/** @param {Person} person @returns {Promise<import('../../src/net/person.js').Ask>} the question that comes next */
async function asked(person) {
  await until(person, () => person.asks.length > 0);
  const ask = person.asks[0];
  assert.ok(ask);
  return ask;
}

/** @param {string} name @param {any} args */
const call = (name, args) => /** @type {const} */ (['tools/call', { name, arguments: args }]);

test('the person says what it is and what can be called', async () => {
  const { agent, ask } = await scene();
  const hello = await agent.peer.meet('me');
  assert.deepEqual(hello.capabilities, { tools: {} });
  assert.deepEqual(await ask('ping'), {});
  assert.deepEqual((await ask('tools/list')).tools.map((/** @type {any} */ tool) => tool.name), ['ask_human', 'show_human']);
  assert.deepEqual(await ask('roots/list'), { roots: [] });
  await assert.rejects(ask('resources/list'), { code: -32601 });
});

test('a question is answered, with a choice or in words', async () => {
  const { person, ask } = await scene();
  const answer = ask(...call('ask_human', { question: 'Tea?', choices: ['yes', 'no'] }));
  const question = await asked(person);
  assert.deepEqual([question.from, question.type, question.text, question.choices], ['agent', 'question', 'Tea?', ['yes', 'no']]);
  question.settle({ action: 'accept', text: 'yes' });
  question.settle({ action: 'accept', text: 'too late' });
  assert.deepEqual(await answer, { content: [{ type: 'text', text: 'yes' }], structuredContent: { answer: 'yes' } });
  assert.equal(person.asks.length, 0);
});

test('a question is declined: the tool failed', async () => {
  const { person, ask } = await scene();
  const answer = ask(...call('ask_human', { question: 'Really?' }));
  (await asked(person)).settle({ action: 'decline' });
  assert.equal((await answer).isError, true);
});

test('wrong arguments are refused without bothering the person', async () => {
  const { person, ask } = await scene();
  for (const args of [{}, { question: '' }, { question: 7 }, { question: 'a', choices: 'b' }, { question: 'a', choices: [1] }]) {
    await assert.rejects(ask(...call('ask_human', args)), { code: -32602 });
  }
  await assert.rejects(ask(...call('launch', {})), /no tool "launch"/);
  await assert.rejects(ask(...call('show_human', {})), { code: -32602 });
  for (const url of ['javascript:alert(1)', 'data:text/html,x', 'nonsense', undefined]) {
    await assert.rejects(ask('elicitation/create', { mode: 'url', url, message: 'open' }), { code: -32602 });
  }
  assert.equal(person.asks.length, 0);
});

test('what is shown is a note, and nobody waits', async () => {
  const { person, ask } = await scene();
  assert.deepEqual((await ask(...call('show_human', { text: 'done' }))).content, [{ type: 'text', text: 'shown' }]);
  assert.deepEqual(person.notes.map(({ from, text, type }) => [from, text, type]), [['agent', 'done', 'shown']]);
  person.dismiss(person.notes[0]?.id ?? 0);
  assert.equal(person.notes.length, 0);
});

test('an elicitation by form: accepted, declined, put off', async () => {
  const { person, ask } = await scene();
  const schema = { type: 'object', properties: { n: { type: 'integer' } } };
  for (const [outcome, result] of /** @type {[any, any][]} */ ([
    [{ action: 'accept', content: { n: 1 } }, { action: 'accept', content: { n: 1 } }],
    [{ action: 'decline' }, { action: 'decline' }],
    [{ action: 'cancel' }, { action: 'cancel' }],
  ])) {
    const answer = ask('elicitation/create', { message: 'How many?', requestedSchema: schema });
    const question = await asked(person);
    assert.deepEqual([question.type, question.text, question.schema], ['form', 'How many?', schema]);
    question.settle(outcome);
    assert.deepEqual(await answer, result);
  }
});

test('an elicitation by URL shows where it leads', async () => {
  const { person, ask } = await scene();
  const answer = ask('elicitation/create', { mode: 'url', url: 'https://bank.example/pay?x=1', message: 'Pay' });
  const question = await asked(person);
  assert.deepEqual([question.type, question.url?.host], ['page', 'bank.example']);
  question.settle({ action: 'accept' });
  assert.deepEqual(await answer, { action: 'accept' });
});

test('sampling is answered by hand; declined it is an error', async () => {
  const { person, ask } = await scene();
  const messages = [{ role: 'user', content: { type: 'text', text: 'Hello' } }];
  const answer = ask('sampling/createMessage', { messages, maxTokens: 10 });
  const question = await asked(person);
  assert.deepEqual([question.type, question.params.messages], ['completion', messages]);
  question.settle({ action: 'accept', text: 'Hi' });
  assert.deepEqual(await answer, { role: 'assistant', content: { type: 'text', text: 'Hi' }, model: 'human', stopReason: 'endTurn' });
  const other = ask('sampling/createMessage', { messages, maxTokens: 10 });
  (await asked(person)).settle({ action: 'decline' });
  await assert.rejects(other, (error) => error instanceof RpcError && error.code === -1);
  await assert.rejects(ask('sampling/createMessage', {}), { code: -32602 });
});

test('a question that is taken back disappears with a note, and is not answered', async () => {
  const { hall, person, ask, clocks } = await scene();
  const abort = new AbortController();
  const answer = ask(...call('ask_human', { question: 'Still there?' }), { signal: abort.signal });
  const question = await asked(person);
  abort.abort(new Error('never mind'));
  await assert.rejects(answer, /never mind/);
  await until(person, () => person.asks.length === 0 && person.notes.length > 0);
  assert.deepEqual(person.notes.map(({ text, type }) => [text, type]), [['took its question back: Still there?', 'withdrawn']]);
  assert.equal(clocks.length, 0);
  const before = hall.log.length;
  question.settle({ action: 'accept', text: 'too late' });
  assert.equal(hall.log.length, before);
});

test('a question that another window answered disappears here', async () => {
  const { hall, person, ask } = await scene();
  const answer = ask(...call('ask_human', { question: 'Which?' }));
  await asked(person);
  const request = hall.log.map((text) => JSON.parse(text)).find(({ payload }) => payload.method === 'tools/call');
  hall.publish(JSON.stringify({
    protocol: 'mcp-x/v0', id: 'other', ts: '2023-11-14T22:13:20Z', from: 'me', to: ['agent'], kind: 'mcp', correlation_id: request.id,
    payload: { jsonrpc: '2.0', id: request.payload.id, result: { content: [] } },
  }));
  assert.deepEqual(await answer, { content: [] });
  await until(person, () => person.notes.length > 0);
  assert.equal(person.asks.length, 0);
  assert.equal(person.notes[0]?.text, 'had its question answered in another window: Which?');
});

test('who waits is told that the person has not answered yet', async () => {
  const { me, person, agent, clocks } = await scene();
  /** @type {number[]} */
  const heard = [];
  /** @type {(value?: any) => void} */
  let twice = () => {};
  const progress = new Promise((resolve) => (twice = resolve));
  const answer = agent.peer.request('me', ...call('ask_human', { question: 'When?' }), {
    onProgress: ({ done }) => heard.push(done) === 2 && twice(),
  });
  const question = await asked(person);
  [...clocks].forEach((tick) => tick());
  await until(me.room, () => me.room.calls.get(question.envelope)?.progress?.done === 1);
  clocks.forEach((tick) => tick());
  await progress;
  assert.deepEqual(heard, [1, 2]);
  question.settle({ action: 'accept', text: 'now' });
  await answer;
  assert.equal(clocks.length, 0);
});

test('nobody fills the queue', async () => {
  const { person, ask } = await scene();
  const open = Array.from({ length: 16 }, (_, index) => ask(...call('ask_human', { question: `${index}?` })));
  await until(person, () => person.asks.length === 16);
  await assert.rejects(ask(...call('ask_human', { question: 'one more?' })), /too many questions/);
  for (const question of [...person.asks]) question.settle({ action: 'decline' });
  await Promise.all(open);
  for (let index = 0; index < 60; index += 1) await ask(...call('show_human', { text: `${index}` }));
  assert.equal(person.notes.length, 50);
  assert.equal(person.notes.at(-1)?.text, '59');
});

test('what nobody has seen is not told to be shown', async () => {
  const { person, ask, clocks, eyes } = await scene();
  eyes.open = false;
  const answer = ask(...call('show_human', { text: 'look!' }));
  await until(person, () => person.notes.length > 0);
  person.note('somebody', 'something else', 'withdrawn');
  assert.deepEqual([person.unread, clocks.length], [2, 1]);
  clocks.forEach((tick) => tick());
  assert.match((await answer).content[0].text, /^not seen yet/);
  assert.equal(clocks.length, 0);
  assert.equal(person.unread, 2, 'it waits');
  person.mark('read');
  assert.equal(person.unread, 0);
});

/** @param {string} id @param {any} payload @param {any} [more] */
const told = (id, payload, more = {}) => JSON.stringify({
  protocol: 'mcp-x/v0', id, ts: '2023-11-14T22:13:20Z', from: 'agent', to: ['me'], kind: 'mcp', payload: { jsonrpc: '2.0', ...payload }, ...more,
});

test('a notification is no request, whatever it is called', async () => {
  const { hall, me, person, clocks, ask } = await scene();
  const params = { name: 'ask_human', arguments: { question: 'Well?' } };
  hall.publish(told('n1', { method: 'tools/call', params }));
  hall.publish(told('n2', { method: 'tools/call', params }, { to: [] }));
  hall.publish(told('n3', { method: 'elicitation/create', params: { message: 'Well?' } }));
  hall.publish(told('n4', { method: 'sampling/createMessage', params: { messages: [] } }));
  await assert.rejects(ask('notifications/elicitation/complete'), { code: -32601 });
  await until(me.room, () => me.room.envelopes.has('n4'));
  assert.deepEqual([person.asks.length, person.notes.length, clocks.length], [0, 0, 0]);
});

test('the schema of a question keeps every digit', async () => {
  const { hall, person } = await scene();
  hall.publish(told('q', { id: 1, method: 'elicitation/create', params: { message: '', requestedSchema: '@' } }).replace('"@"', '{"type":"object","properties":{"n":{"default":9007199254740993}}}'));
  const question = await asked(person);
  assert.equal(stringifyExact(question.schema), '{"type":"object","properties":{"n":{"default":9007199254740993}}}');
});

test('a question that was open before is asked in a new tab too, and ends in both', async () => {
  const { hall, person, ask } = await scene();
  const answer = ask(...call('ask_human', { question: 'Which?' }));
  const cancelled = new AbortController();
  ask(...call('ask_human', { question: 'Never mind' }), { signal: cancelled.signal });
  await until(person, () => person.asks.length === 2);
  cancelled.abort(new Error('no'));
  await until(person, () => person.asks.length === 1);
  hall.history = true;
  /** @type {any} */
  let other;
  await hall.join('me', {}, (with_) => (other = new Person({ ...with_, every: () => () => {} })));
  await until(other, () => other.asks.length > 0);
  assert.deepEqual(other.asks.map((/** @type {any} */ { text }) => text), ['Which?']);
  assert.equal(other.asks[0]?.at, Date.parse('2023-11-14T22:13:20Z'));
  other.asks[0]?.settle({ action: 'accept', text: 'this' });
  assert.equal((await answer).structuredContent.answer, 'this');
  await until(person, () => person.asks.length === 0);
  assert.equal(other.asks.length, 0);
});

test('progress grows, whichever tab tells it', async () => {
  const { hall, me, person, agent, clocks, ask } = await scene();
  ask(...call('ask_human', { question: 'When?' }));
  const { envelope } = await asked(person);
  const call_ = () => me.room.calls.get(envelope);
  const { progressToken } = /** @type {any} */ (call_()).params._meta;
  let said = 0;
  const other = (/** @type {number} */ progress) => hall.publish(told(`p${(said += 1)}`, { method: 'notifications/progress', params: { progressToken, progress } },
    { from: 'me', to: ['agent'], correlation_id: envelope }));
  other(1);
  await until(me.room, () => call_()?.progress?.done === 1);
  const tick = () => [...clocks].forEach((one) => one());
  tick();
  tick();
  await until(me.room, () => call_()?.progress?.done === 2);
  other(7.5);
  await until(me.room, () => call_()?.progress?.done === 7.5);
  tick();
  tick();
  await until(me.room, () => call_()?.progress?.done === 8);
  const heard = [...agent.room.calls.get(envelope)?.notices ?? []].map(({ payload }) => payload.params.progress);
  assert.deepEqual(heard, [1, 2, 7.5, 8]);
});

test('a question ends when nobody waits for it any more', async () => {
  const { hall, me, person, ask, clocks } = await scene();
  ask(...call('ask_human', { question: 'Still?' }));
  await asked(person);
  hall.presence('leave', 'me');
  await until(person, () => person.asks.length === 0);
  assert.equal(person.notes[0]?.text, 'does not wait for an answer any more: Still?');
  assert.equal(clocks.length, 0);
  assert.equal(me.peer.served.serving.size, 0);
});

test('an answer that does not arrive is not lost', async () => {
  const { me, person, ask } = await scene();
  ask(...call('ask_human', { question: 'What?' }));
  const question = await asked(person);
  me.room.longest = 10;
  question.settle({ action: 'accept', text: 'a long story' });
  await until(person, () => person.notes.length > 0);
  assert.match(person.notes[0]?.text ?? '', /^did not get your answer .* It was: a long story$/);
});

test('who is muted is refused', async () => {
  const { person, ask } = await scene();
  const open = ask(...call('ask_human', { question: 'One?' }));
  await asked(person);
  person.mute('agent');
  assert.equal((await open).isError, true);
  await assert.rejects(ask(...call('ask_human', { question: 'Two?' })), { code: -32000 });
  await assert.rejects(ask(...call('show_human', { text: 'Three' })), { code: -32000 });
  assert.equal(person.notes.length, 0);
  person.unmute('agent');
  ask(...call('ask_human', { question: 'Four?' }));
  assert.equal((await asked(person)).text, 'Four?');
});

test('leaving the room leaves nothing behind', async () => {
  const { me, person, ask, clocks, eyes } = await scene();
  eyes.open = false;
  ask(...call('ask_human', { question: 'Hm?' }));
  ask(...call('show_human', { text: 'x' }));
  await until(person, () => person.asks.length === 1 && person.notes.length === 1);
  assert.equal(clocks.length, 2);
  person.close();
  assert.deepEqual([clocks.length, person.asks.length], [0, 0]);
  me.peer.close();
  assert.equal(me.peer.served.serving.size, 0);
});

test('notes about what is over do not pile up', async () => {
  const { person, ask } = await scene();
  for (let times = 0; times < 6; times += 1) {
    const abort = new AbortController();
    ask(...call('ask_human', { question: `${times}?` }), { signal: abort.signal });
    await until(person, () => person.asks.length === 1);
    abort.abort(new Error('no'));
    await until(person, () => person.asks.length === 0);
  }
  assert.deepEqual(person.notes.map(({ text }) => text.slice(-2)), ['3?', '4?', '5?']);
});
