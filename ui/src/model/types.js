// The shapes that the page's modules hand to each other. Types only: nothing here runs.

/**
 * One thing said in the room, as the gateway passed it on.
 * @typedef {object} Envelope
 * @property {string} id
 * @property {string} ts what the sender wrote on it
 * @property {string} topic
 * @property {string} from
 * @property {string[]} to empty: everybody
 * @property {'mcp'|'presence'|'system'} kind
 * @property {string} [correlationId] the envelope that this one replies to
 * @property {string} [replyTo]
 * @property {any} payload
 * @property {string} raw the text as received, byte for byte; show this, not `payload`, where digits matter
 * @property {number} at `ts` in milliseconds
 * @property {Envelope} [edited] of a chat message: its author's newest version of it
 * @property {Envelope} [retracted] of a chat message: its author has taken it back
 * @property {{by: string, reason?: string}} [redacted] a moderator has removed its text
 * @property {number} [heard] when it arrived here, in milliseconds; absent for what came out of history
 */

/**
 * Somebody who is or was in the room.
 * @typedef {object} Person
 * @property {string} id
 * @property {string} [name]
 * @property {string} [kind] `human`, `agent` or `robot`
 * @property {number} [joinedAt] in milliseconds, where the join was seen
 * @property {boolean} present
 * @property {{version?: string, versions?: string[]}} [mcp]
 * @property {{status: string, text?: string, until?: string}} [status] what it says that it is doing
 * @property {string} [via] the bridge that speaks for it
 * @property {any} [capabilities] what it says of itself in words of its own
 * @property {number} joins how often it was seen to come: a handshake is good for one of them
 */

/**
 * How far a call has come.
 * @typedef {{done: number, total?: number, message?: string}} Progress
 */

/**
 * A request and what became of it.
 * @typedef {object} Call
 * @property {string} id the request envelope's id
 * @property {string} caller
 * @property {string} callee
 * @property {string} method
 * @property {string} [tool] the tool's name, for `tools/call`
 * @property {any} params
 * @property {Envelope} request
 * @property {Envelope} [answer] the response, or the gateway's refusal
 * @property {any} [result]
 * @property {any} [error] a JSON-RPC error, or `{code, message}` of a refusal
 * @property {'running'|'done'|'failed'|'cancelled'|'abandoned'} state `failed` includes a result with `isError`; `abandoned`: the caller
 *   has left and nobody waits for the answer
 * @property {number} began
 * @property {number} [ended]
 * @property {Progress} [progress]
 * @property {Envelope[]} notices what was notified about it: progress, logging, cancelling
 * @property {string} [parent] the call that it was made because of, by correlation
 */

/**
 * What one row of the transcript shows. `id` is stable as long as the row is; `rev` grows whenever the row has changed,
 * because calls are changed in place.
 * @typedef {(
 *   {type: 'chat', id: string, rev: number, envelope: Envelope, thread?: string} |
 *   {type: 'call', id: string, rev: number, call: Call} |
 *   {type: 'presence', id: string, rev: number, envelopes: Envelope[]} |
 *   {type: 'handshake', id: string, rev: number, calls: Call[], envelopes: Envelope[]} |
 *   {type: 'notice', id: string, rev: number, envelope: Envelope} |
 *   {type: 'approval', id: string, rev: number, envelope: Envelope, approval: import('./control.js').Approval} |
 *   {type: 'control', id: string, rev: number, envelope: Envelope, before: import('./control.js').TopicSettings|null} |
 *   {type: 'gap', id: string, rev: number} |
 *   {type: 'day', id: string, rev: number, at: number}
 * )} Item
 */
/** @typedef {Extract<Item, {type: 'chat'}>} ChatItem */
/** @typedef {Extract<Item, {type: 'call'}>} CallItem */
/** @typedef {Extract<Item, {type: 'presence'}>} PresenceItem */
/** @typedef {Extract<Item, {type: 'handshake'}>} HandshakeItem */
/** @typedef {Extract<Item, {type: 'notice'}>} NoticeItem */
/** @typedef {Extract<Item, {type: 'approval'}>} ApprovalItem */
/** @typedef {Extract<Item, {type: 'control'}>} ControlItem */

/**
 * What is to be sent. `payloadText` is JSON that goes out as it stands, where numbers must keep their digits.
 * @typedef {{id?: string, to?: string[], correlationId?: string, payload?: any, payloadText?: string}} Draft
 */

/**
 * How the connection stands.
 * @typedef {object} ConnectionState
 * @property {'connecting'|'live'|'stalled'|'waiting'|'closed'|'replaced'|'signed-out'|'another'} name `stalled`: connected, but the
 *   gateway can store nothing at the moment; `another`: the browser is somebody else's now
 * @property {number} since
 * @property {number} [retryAt] when the next attempt is made, while `waiting`
 * @property {string} [why] a sentence for the person
 */

/**
 * Who the browser is signed in as; the body of `/v0/session`.
 * @typedef {object} SessionInfo
 * @property {{id: string, name?: string, kind?: string}} participant
 * @property {string[]} topics names, or prefixes with a trailing `*`
 * @property {string} expires
 * @property {string[]} [allow] `participant/tool` patterns that the gateway's configuration allows without asking
 * @property {string[]} [permissions] of the token
 * @property {string[]} [capabilities] what the token is limited to
 * @property {boolean} [creates_topics] whether a topic without settings can be given some
 */

/**
 * What stands in the panel at the side.
 * @typedef {{panel: 'peer'|'inspector'|'asks'|'settings'|'thread', id?: string, again?: string}} Panel again: the call whose tool and arguments are to be called again
 */

/**
 * Where the address leads: to the list of rooms, or to what operators do (`admin`), or to a room. In a room it may name an envelope to show, somebody to look at, a stretch of time (in milliseconds) and a filter.
 * @typedef {{view: 'lobby', admin?: boolean}|{view: 'room'|'timeline', topic: string, show?: string, person?: string, from?: number, to?: number, filter?: import('./filter.js').Filter}} Route
 */

/**
 * What a handler of a request is given beside its params.
 * @typedef {object} RequestContext
 * @property {string} from who asks
 * @property {Envelope} envelope the request
 * @property {AbortSignal} signal aborted when it is cancelled, or answered by another tab of the same person
 * @property {(done: number, total?: number, message?: string) => void} progress tells the caller, if it wants to know
 */

/** @typedef {(params: any, context: RequestContext) => any} Handler a result, a promise of one, or a thrown `RpcError` */

/**
 * Anything that changes and says so. `revision` grows with every change.
 * @typedef {{revision: number, subscribe(fn: () => void): () => void}} Changing
 */

export {};
