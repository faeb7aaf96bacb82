// Calls and their answers: pairs them, and says in words what they are about. Pure.

import { messageType } from './envelope.js';
import { exactPayload, stringifyExact } from './exact.js';
import { isObject } from './raw.js';

/** @typedef {import('./types.js').Envelope} Envelope */
/** @typedef {import('./types.js').Call} Call */

/** What machines say to each other to get ready; folded away. @param {string} method */
export function isPreparation(method) {
  return PREPARATIONS.has(method) || method.endsWith('/list') || method.endsWith('/list_changed');
}

const PREPARATIONS = new Set([
  'initialize', 'notifications/initialized', 'ping', 'logging/setLevel', 'server/discover', 'completion/complete',
  'notifications/roots/list_changed',
]);

/** The calls of a room, each from its request to its answer. */
export class Calls {
  constructor() {
    /** @type {Map<string, Call>} by the request envelope's id */
    this.all = new Map();
    /** @type {Call[]} the same, oldest first */
    this.list = [];
    /** @type {Map<string, Call>} those that wait for an answer */
    this.open = new Map();
    /** @type {Map<string, string>} which call an envelope belongs to, for those that are neither request nor call */
    this.about = new Map();
    /** @type {Map<string, Set<Call>>} those that wait, by whom they are asked of */
    this.byCallee = new Map();
    /** @type {Map<string, Set<Call>>} the same, by who asks */
    this.byCaller = new Map();
    /** @type {Map<string, {call: Call, order: number}[]>} by what a notification may name them by, oldest first; ended ones go when they are met */
    this.named = new Map();
  }

  /** A request begins a call. @param {Envelope} envelope @returns {Call} */
  ask(envelope) {
    const { method, params } = envelope.payload;
    /** @type {Call} */
    const call = {
      id: envelope.id, caller: envelope.from, callee: envelope.to[0] ?? '', method, params: params ?? {},
      request: envelope, state: 'running', began: envelope.at, notices: [],
    };
    if (method === 'tools/call' && typeof params?.name === 'string') call.tool = params.name;
    const parent = this.of(envelope.correlationId);
    if (parent) call.parent = parent.id;
    this.all.set(call.id, call);
    this.list.push(call);
    this.open.set(call.id, call);
    for (const [map, id] of /** @type {const} */ ([[this.byCallee, call.callee], [this.byCaller, call.caller]])) {
      const waiting = map.get(id);
      if (waiting) waiting.add(call);
      else map.set(id, new Set([call]));
    }
    this.name(call.callee, call.caller, 'progress', params?._meta?.progressToken, call);
    this.name(call.caller, call.callee, 'cancelled', envelope.payload.id, call);
    return call;
  }

  /** @param {string} teller @param {string} other @param {string} about @param {unknown} by @param {Call} call */
  name(teller, other, about, by, call) {
    if (by === undefined) return;
    for (const key of [keyOf(teller, '', about, by), keyOf(teller, other, about, by)]) {
      const list = this.named.get(key);
      const named = { call, order: this.all.size };
      if (list) list.push(named);
      else this.named.set(key, [named]);
    }
  }

  /** The call that an envelope belongs to. @param {string|undefined} envelopeId @returns {Call|undefined} */
  of(envelopeId) {
    if (envelopeId === undefined) return undefined;
    return this.all.get(envelopeId) ?? this.all.get(this.about.get(envelopeId) ?? '');
  }

  /** A response ends its call, the first one counting. @param {Envelope} envelope @returns {Call|undefined} */
  answer(envelope) {
    const call = this.all.get(envelope.correlationId ?? '');
    if (!call || call.callee !== envelope.from) return undefined;
    this.about.set(envelope.id, call.id);
    if (call.answer && call.answer.kind === 'mcp') return call;
    const { result, error } = envelope.payload;
    call.answer = envelope;
    delete call.error;
    if (error !== undefined) call.error = error;
    else call.result = result;
    const failed = error !== undefined || result?.isError === true;
    if (!failed) call.state = 'done';
    else if (call.state !== 'cancelled') call.state = 'failed';
    this.end(call, envelope);
    return call;
  }

  /** The gateway's refusal, or its word that the other has left. @param {Envelope} envelope @returns {Call|undefined} */
  refuse(envelope) {
    const call = this.open.get(envelope.correlationId ?? '');
    if (!call) return undefined;
    const { code, message } = envelope.payload;
    call.answer = envelope;
    call.error = { code, message };
    call.state = 'failed';
    this.end(call, envelope);
    return call;
  }

  /** Ends the calls to and from somebody who left: nobody answers the ones, and nobody waits for the others. @param {string} id @param {Envelope} envelope @returns {Call[]} */
  left(id, envelope) {
    const ended = [...this.byCallee.get(id) ?? []];
    for (const call of ended) {
      call.error = { code: 'recipient_not_found', message: `${id} left before answering` };
      call.state = 'failed';
      this.end(call, envelope);
    }
    for (const call of [...this.byCaller.get(id) ?? []]) {
      call.state = 'abandoned';
      this.end(call, envelope);
      ended.push(call);
    }
    return ended;
  }

  /** @param {Call} call @param {Envelope} by */
  end(call, by) {
    const { request } = call;
    let took = by.at - request.at;
    // The two were written by two clocks. Where those disagree, ours decides.
    if (took < 0) took = by.heard !== undefined && request.heard !== undefined ? by.heard - request.heard : 0;
    call.ended = call.began + Math.max(0, took);
    this.open.delete(call.id);
    for (const [map, id] of /** @type {const} */ ([[this.byCallee, call.callee], [this.byCaller, call.caller]])) {
      const waiting = map.get(id);
      waiting?.delete(call);
      if (waiting?.size === 0) map.delete(id);
    }
  }

  /** Something notified about a call: progress, logging, cancelling. @param {Envelope} envelope @returns {Call|undefined} */
  notice(envelope) {
    const { method, params } = envelope.payload;
    const call = this.of(envelope.correlationId) ?? this.meant(envelope);
    if (!call) return undefined;
    const byCallee = envelope.from === call.callee;
    if (method === 'notifications/progress') {
      if (!byCallee || typeof params?.progress !== 'number') return undefined;
      call.progress = { done: params.progress };
      if (typeof params.total === 'number' && params.total > 0) call.progress.total = params.total;
      if (typeof params.message === 'string') call.progress.message = params.message;
    } else if (method === 'notifications/cancelled') {
      if (envelope.from !== call.caller) return undefined;
      if (call.state === 'running') {
        call.state = 'cancelled';
        this.end(call, envelope);
      }
    }
    call.notices.push(envelope);
    this.about.set(envelope.id, call.id);
    return call;
  }

  /** The open call that a notification without correlation means. @param {Envelope} envelope @returns {Call|undefined} */
  meant(envelope) {
    const { method, params } = envelope.payload;
    if (method === 'notifications/progress') return this.find(envelope, 'progress', params?.progressToken);
    if (method === 'notifications/cancelled') return this.find(envelope, 'cancelled', params?.requestId);
    return undefined;
  }

  /** The newest call that is named so and still open. @param {Envelope} envelope @param {string} about @param {unknown} by @returns {Call|undefined} */
  find(envelope, about, by) {
    if (by === undefined) return undefined;
    const others = envelope.to.length === 0 ? [''] : envelope.to;
    /** @type {{call: Call, order: number}|undefined} */
    let newest;
    for (const other of others) {
      const list = this.named.get(keyOf(envelope.from, other, about, by)) ?? [];
      while (list.length > 0 && !this.open.has(list[list.length - 1].call.id)) list.pop();
      const found = list[list.length - 1];
      if (found && (!newest || found.order > newest.order)) newest = found;
    }
    return newest?.call;
  }
}

/** The request that a notification is about, by its sender and recipient (empty: everybody). @param {string} teller @param {string} other @param {string} about @param {unknown} by */
function keyOf(teller, other, about, by) {
  return JSON.stringify([about, teller, other, by]);
}

/**
 * What is asked, in a few words: a tool's name or a method, and its arguments as one would type them.
 * @param {{method: string, params: any}} call
 * @returns {{what: string, details: string}}
 */
export function asked({ method, params }) {
  switch (method) {
    case 'tools/call':
      return { what: text(params?.name) || method, details: argumentsText(params?.arguments) };
    case 'resources/read':
    case 'resources/subscribe':
    case 'resources/unsubscribe':
      return { what: method, details: text(params?.uri) };
    case 'prompts/get':
      return { what: method, details: `${text(params?.name)} ${argumentsText(params?.arguments)}`.trim() };
    case 'elicitation/create':
      return { what: 'asks', details: text(params?.message) };
    default:
      return { what: method, details: '' };
  }
}

/** Arguments as one would type them: `x=1 label="two words"`. @param {any} value */
export function argumentsText(value) {
  if (!isObject(value)) return '';
  const bare = (/** @type {any} */ each) => typeof each === 'string' && each !== '' && !/[\s"=]/.test(each);
  return Object.entries(value).map(([key, each]) => `${key}=${bare(each) ? each : stringifyExact(each)}`).join(' ');
}

/**
 * How a call ended, in a few words; empty while it runs and where there is nothing to say.
 * @param {{result?: any, error?: any}} call
 * @returns {string}
 */
export function answered({ result, error }) {
  if (error !== undefined) {
    const code = error?.code === undefined ? '' : ` (${text(error.code) || stringifyExact(error.code)})`;
    return `${text(error?.message) || 'an error without a message'}${code}`;
  }
  if (!isObject(result)) return '';
  if (Array.isArray(result.content)) {
    const told = result.content.map(blockText);
    return told.length === 0 && result.structuredContent !== undefined
      ? stringifyExact(result.structuredContent) : told.join('\n');
  }
  for (const [list, key] of [['tools', 'name'], ['resources', 'uri'], ['prompts', 'name'], ['roots', 'uri']]) {
    if (!Array.isArray(result[list])) continue;
    return result[list].map((/** @type {any} */ each) => text(each?.[key])).filter(Boolean).join(', ') || 'none';
  }
  if (result.serverInfo) return `${text(result.serverInfo.name)}, MCP ${text(result.protocolVersion)}`;
  if (typeof result.action === 'string') return `${result.action} ${argumentsText(result.content)}`.trim();
  const contents = result.contents ?? result.messages;
  if (Array.isArray(contents)) return contents.map((each) => blockText(each?.content ?? each)).join('\n');
  return Object.keys(result).length === 0 ? '' : stringifyExact(result);
}

/** A block of content: its text, or what it is. @param {any} block @returns {string} */
export function blockText(block) {
  if (!block || typeof block !== 'object') return String(block);
  const bytes = (/** @type {any} */ data) => `${Math.floor((text(data).length / 4) * 3)} bytes`;
  if (block.type === 'image' || block.type === 'audio') return `[${block.type} ${text(block.mimeType)}, ${bytes(block.data)}]`;
  if (block.type === 'resource_link') return `[${text(block.uri)}]`;
  if (block.type === 'resource') return blockText(block.resource);
  if (typeof block.text === 'string') return block.text;
  if (typeof block.blob === 'string') return `[${text(block.uri)} ${text(block.mimeType)}, ${bytes(block.blob)}]`;
  return stringifyExact(block);
}

/** What any other notification says. @param {Envelope} envelope @returns {string} */
export function noticed(envelope) {
  const { method, params, result, error } = exactPayload(envelope);
  if (messageType(envelope) === 'response') return answered({ result, error }) || 'done';
  if (method === 'notifications/message') {
    const data = typeof params?.data === 'string' ? params.data : stringifyExact(params?.data ?? null);
    return `${text(params?.level) || 'log'}: ${data}`;
  }
  if (method === 'notifications/chat/edit') return `edited an older message: ${text(params?.text)}`;
  if (method === 'notifications/chat/retract') return 'took an older message back';
  if (method === 'notifications/message/redacted') return `${text(params?.by)} redacted a message${params?.reason ? `: ${text(params.reason)}` : ''}`;
  const name = text(method).replace(/^notifications\//, '');
  return params === undefined ? name : `${name} ${stringifyExact(params)}`;
}

/** @param {any} value */
function text(value) {
  return typeof value === 'string' ? value : '';
}
