/**
 * The person as a participant: an MCP server that others can call. Questions to the person wait here until they answer, decline, or
 * the asker cancels the question. Also what the page offers as a client: sampling and elicitation, both answered by hand.
 */

import { stringifyExact } from '../model/exact.js';
import { clip } from '../model/text.js';
import { PERSON_TOOLS } from './persontools.js';
import { RpcError } from './rpc.js';
import { Watched } from '../model/watched.js';

/** @typedef {import('../model/types.js').Handler} Handler */
/** @typedef {import('../model/types.js').RequestContext} RequestContext */
/** @typedef {import('../model/room.js').RoomModel} RoomModel */

/** What the page says in its own `initialize`: what it can be asked while it calls somebody. */
export const CLIENT_CAPABILITIES = { sampling: {}, elicitation: { form: {}, url: {} }, roots: {} };

/**
 * What the person made of a question.
 * @typedef {{action: 'accept', text?: string, content?: unknown} | {action: 'decline'} | {action: 'cancel'}} Outcome
 */

/**
 * A question that waits for the person.
 * @typedef {object} Ask
 * @property {number} id its own
 * @property {string} envelope the id of the envelope that it was asked in
 * @property {string} from
 * @property {number} at when it was asked, in milliseconds
 * @property {'question'|'form'|'page'|'completion'} type `ask_human`, an elicitation by form or by URL, sampling
 * @property {string} text what is asked
 * @property {string[]} choices of a question; may be empty
 * @property {any} [schema] of a form
 * @property {URL} [url] of a page
 * @property {any} [params] of a completion
 * @property {(outcome: Outcome) => void} settle
 */

/**
 * Something to tell the person that wants no answer.
 * @typedef {object} Note
 * @property {number} id
 * @property {string} from
 * @property {number} at
 * @property {string} text
 * @property {'shown'|'withdrawn'} type
 * @property {boolean} seen whether it was on the screen, if only as a message over the page
 * @property {boolean} read whether it was in the panel
 */

const MAX_ASKS = 64;
const MAX_ASKS_OF_ONE = 16;
const MAX_NOTES = 50;
const MAX_WITHDRAWN = 3;
const KEEP_ALIVE_MS = 15_000;
/** Tabs of one person do not speak all at the same moment: each begins some time within this. */
const APART_MS = 1000;
/** A page that is in sight is drawn long before this is over. */
const SEEN_MS = 2000;
const MUTED = 'the person does not take questions from you at present';
const REVISIONS = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];

/** @param {number} ms @param {() => void} fn @returns {() => void} stops it */
function every(ms, fn) {
  const timer = setInterval(fn, ms);
  return () => clearInterval(timer);
}

export class Person extends Watched {
  /**
   * @param {object} of
   * @param {Pick<import('./peer.js').Peer, 'serve'|'unheard'>} of.peer
   * @param {Pick<RoomModel, 'calls'>} of.room
   * @param {(ms: number, fn: () => void) => () => void} [of.every]
   * @param {() => number} [of.now]
   * @param {() => number} [of.random] from 0 to 1
   */
  constructor({ peer, room, every: repeat = every, now = Date.now, random = Math.random }) {
    super();
    /** @type {Ask[]} oldest first */
    this.asks = [];
    /** @type {Note[]} newest last */
    this.notes = [];
    this.room = room;
    this.every = repeat;
    this.now = now;
    this.random = random;
    this.counted = 0;
    /** @type {Set<() => void>} what ends the open questions and notes without answering them */
    this.ends = new Set();
    /** @type {Set<string>} whose questions and notes the person does not want, as long as this page is open */
    this.muted = new Set();
    peer.serve(this.handlers());
    peer.unheard = ({ from }, body, why) => {
      const { structuredContent, content, action } = body.result ?? {};
      const said = structuredContent?.answer ?? content?.text ?? (action === 'accept' && content ? stringifyExact(content) : '');
      const answer = said ? ` It was: ${said}` : '';
      if (body.result) this.note(from, `did not get your answer (${why}).${answer}`, 'withdrawn');
    };
  }

  /** @param {number} id of a note that was read */
  dismiss(id) {
    this.notes = this.notes.filter((note) => note.id !== id);
    this.changed();
  }

  /** @param {string} id whose open questions are declined, and whose next ones are not asked */
  mute(id) {
    this.muted.add(id);
    this.notes = this.notes.filter((note) => note.from !== id);
    for (const ask of this.asks.filter(({ from }) => from === id)) ask.settle({ action: 'decline' });
    this.changed();
  }

  /** @param {string} id */
  unmute(id) {
    this.muted.delete(id);
    this.changed();
  }

  /** How many notes the person has not had in the panel. */
  get unread() {
    return this.notes.reduce((sum, note) => sum + (note.read ? 0 : 1), 0);
  }

  /**
   * What was told is on the screen now.
   * @param {'seen'|'read'} how
   * @param {number} [upTo] the newest note that is; all without
   */
  mark(how, upTo = this.counted) {
    if (this.notes.every((note) => note.id > upTo || note[how])) return;
    this.notes = this.notes.map((note) => (note.id > upTo ? note : { ...note, seen: true, read: note.read || how === 'read' }));
    this.changed();
  }

  /** The room is left. Who asked learns it from the room; nothing is answered. */
  close() {
    for (const end of [...this.ends]) end();
    this.changed();
  }

  /** @returns {Record<string, Handler>} */
  handlers() {
    return {
      initialize: (params) => ({
        protocolVersion: REVISIONS.includes(params?.protocolVersion) ? params.protocolVersion : '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'salon-web', title: 'A person in a browser', version: '0' },
        instructions: 'This is a person. `ask_human` puts a question to them and waits for the answer; people are slow.',
      }),
      ping: () => ({}),
      'tools/list': () => ({ tools: PERSON_TOOLS }),
      'tools/call': (params, context) => this.called(params, context),
      'elicitation/create': (params, context) => this.elicited(params, context),
      'sampling/createMessage': (params, context) => this.sampled(params, context),
      'roots/list': () => ({ roots: [] }),
      'notifications/elicitation/complete': (_, { from }) => this.note(from, 'What it asked for on its page is done.', 'shown'),
    };
  }

  /** @type {Handler} */
  called(params, context) {
    const args = params?.arguments ?? {};
    if (params?.name === 'ask_human') return this.asked(args, context);
    if (params?.name !== 'show_human') throw new RpcError(-32602, `there is no tool ${JSON.stringify(params?.name)}`);
    return this.shown(wanted(args.text, 'text'), context);
  }

  /**
   * Answers once the person has it on the screen, or clearly does not look.
   * @param {string} text
   * @param {RequestContext} context
   * @returns {Promise<any>}
   */
  shown(text, { from, signal }) {
    if (this.muted.has(from)) throw new RpcError(-32000, MUTED);
    const id = this.note(from, text, 'shown');
    const seen = () => this.notes.find((note) => note.id === id)?.seen ?? true;
    return new Promise((resolve, reject) => {
      const end = () => {
        this.ends.delete(end);
        ends.forEach((one) => one());
        signal.removeEventListener('abort', elsewhere);
      };
      const answer = (/** @type {string} */ words) => {
        end();
        resolve({ content: [{ type: 'text', text: words }] });
      };
      // Another tab has shown it: here it is old news.
      const elsewhere = () => {
        end();
        if (!seen()) this.dismiss(id);
        reject(signal.reason);
      };
      const ends = [
        this.subscribe(() => { if (seen()) answer('shown'); }),
        this.every(SEEN_MS, () => answer('not seen yet: the person is not looking at the page, and finds it there later')),
      ];
      signal.addEventListener('abort', elsewhere);
      this.ends.add(end);
      if (seen()) answer('shown');
    });
  }

  /** @type {Handler} */
  async asked(args, context) {
    const text = wanted(args.question, 'question');
    const choices = args.choices ?? [];
    if (!Array.isArray(choices) || choices.length > 50 || choices.some((one) => typeof one !== 'string')) {
      throw new RpcError(-32602, '`choices` must be a list of at most 50 texts');
    }
    const outcome = await this.put(context, { type: 'question', text, choices });
    if (outcome.action !== 'accept') {
      return { content: [{ type: 'text', text: 'the person does not want to answer' }], isError: true };
    }
    const answer = outcome.text ?? '';
    return { content: [{ type: 'text', text: answer }], structuredContent: { answer } };
  }

  /** @type {Handler} */
  async elicited(params, context) {
    const text = typeof params?.message === 'string' ? params.message : '';
    const outcome = await (params?.mode === 'url'
      ? this.put(context, { type: 'page', text, url: pageAddress(params.url) })
      : this.put(context, { type: 'form', text, schema: params?.requestedSchema ?? { type: 'object', properties: {} } }));
    if (outcome.action !== 'accept') return { action: outcome.action };
    return params?.mode === 'url' ? { action: 'accept' } : { action: 'accept', content: outcome.content ?? {} };
  }

  /** @type {Handler} */
  async sampled(params, context) {
    if (!Array.isArray(params?.messages)) throw new RpcError(-32602, '`messages` must be a list');
    const outcome = await this.put(context, { type: 'completion', text: '', params });
    // −1 is the code that MCP shows for a person's no.
    if (outcome.action !== 'accept') throw new RpcError(-1, 'the person declined to answer');
    return { role: 'assistant', content: { type: 'text', text: outcome.text ?? '' }, model: 'human', stopReason: 'endTurn' };
  }

  /**
   * Puts a question to the person.
   * @param {RequestContext} context
   * @param {Pick<Ask, 'type'|'text'> & Partial<Ask>} question
   * @returns {Promise<Outcome>}
   */
  put({ from, envelope, signal, progress }, question) {
    if (this.muted.has(from)) throw new RpcError(-32000, MUTED);
    const full = this.asks.length >= MAX_ASKS || this.asks.filter((ask) => ask.from === from).length >= MAX_ASKS_OF_ONE;
    if (full) throw new RpcError(-32000, 'the person has too many questions to answer; ask again later');
    return new Promise((resolve, reject) => {
      const stop = this.keepAlive(envelope.id, progress);
      const end = () => {
        stop();
        this.ends.delete(end);
        signal.removeEventListener('abort', withdrawn);
        this.asks = this.asks.filter((one) => one !== ask);
        this.changed();
      };
      const withdrawn = () => {
        end();
        const fate = this.fateOf(envelope.id);
        this.note(from, question.text ? `${fate}: ${clip(question.text, 200)}` : fate, 'withdrawn');
        reject(signal.reason);
      };
      /** @type {Ask} */
      const ask = {
        choices: [], ...question, id: (this.counted += 1), envelope: envelope.id, from,
        // One that was asked before this page was opened comes out of the past.
        at: envelope.heard === undefined && envelope.at > 0 ? envelope.at : this.now(),
        settle: (outcome) => {
          if (!this.asks.includes(ask)) return;
          end();
          resolve(outcome);
        },
      };
      signal.addEventListener('abort', withdrawn);
      this.ends.add(end);
      this.asks = [...this.asks, ask];
      this.changed();
    });
  }

  /**
   * Tells who waits that the person has not answered yet. Every tab of the person does, so a tab keeps silent when another has spoken,
   * and never says less than the room has heard already: progress must grow.
   * @param {string} call the request envelope's id
   * @param {RequestContext['progress']} progress
   * @returns {() => void} ends it
   */
  keepAlive(call, progress) {
    let told = 0;
    const tell = () => {
      const heard = this.room.calls.get(call)?.progress?.done ?? 0;
      const others = heard > told;
      told = others ? heard : Math.floor(told) + 1;
      if (!others) progress(told, undefined, 'the person has not answered yet');
    };
    let stop = this.every(APART_MS * this.random(), () => {
      stop();
      tell();
      stop = this.every(KEEP_ALIVE_MS * (1 - this.random() / 4), tell);
    });
    return () => stop();
  }

  /** Why a question needs no answer any more. @param {string} id */
  fateOf(id) {
    const call = this.room.calls.get(id);
    if (call?.answer?.kind === 'mcp') return 'had its question answered in another window';
    return call?.state === 'failed' ? 'does not wait for an answer any more' : 'took its question back';
  }

  /** @param {string} from @param {string} text @param {Note['type']} type @returns {number} its id */
  note(from, text, type) {
    const id = (this.counted += 1);
    // What is only told for the record does not pile up.
    const old = type === 'withdrawn' ? this.notes.filter((note) => note.type === 'withdrawn').slice(0, 1 - MAX_WITHDRAWN) : [];
    this.notes = [...this.notes.filter((note) => !old.includes(note)).slice(1 - MAX_NOTES), { id, from, at: this.now(), text, type, seen: false, read: false }];
    this.changed();
    return id;
  }
}

/** @param {unknown} value @param {string} name @returns {string} */
function wanted(value, name) {
  if (typeof value === 'string' && value.trim() !== '') return value;
  throw new RpcError(-32602, `\`${name}\` must be a text that is not empty`);
}

/**
 * @param {unknown} address
 * @returns {URL} one that a browser may safely open in a window of its own
 */
function pageAddress(address) {
  const url = typeof address === 'string' && URL.canParse(address) ? new URL(address) : undefined;
  if (url && (url.protocol === 'https:' || url.protocol === 'http:')) return url;
  throw new RpcError(-32602, '`url` must be an http or https address');
}
