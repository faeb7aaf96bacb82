// A room's settings and its held calls, as the gateway's notices in the log tell them. Pure.

import { GATEWAY } from './envelope.js';
import { at as rawAt } from './raw.js';
import { allows } from './rights.js';

/** @typedef {import('./types.js').Envelope} Envelope */

/**
 * What a topic allows; see docs/how-to/control.md.
 * @typedef {object} TopicSettings
 * @property {number} version 0: the topic has no settings
 * @property {string} [title]
 * @property {string} [description]
 * @property {'token'|'members'} [access]
 * @property {Record<string, string>} [members] roles by participant
 * @property {string} [default_role]
 * @property {Record<string, string[]>} [roles]
 * @property {any[]} [rules]
 * @property {{messages_per_minute?: number, calls_per_minute?: number, hops?: number}} [limits]
 * @property {{max_age_ms?: number, max_entries?: number}} [retention]
 * @property {boolean} [archived]
 * @property {boolean} [stopped]
 * @property {string[]} [paused]
 * @property {string[]} [removed]
 */

/**
 * A call that is stored once somebody has approved it.
 * @typedef {object} Approval
 * @property {string} id of the held envelope, by which it is decided about
 * @property {string} notice the id of the envelope that asks for the decision
 * @property {string} request the held envelope, as its sender wrote it
 * @property {string} digest
 * @property {string} caller
 * @property {string} callee
 * @property {string} tool
 * @property {string[]} approvers ids, or `role:NAME`; nobody: everyone with `approve` for the call
 * @property {number} needs
 * @property {boolean} selfApproval
 * @property {number} expires in milliseconds
 * @property {{by: string, decision: string, reason?: string, at: number}[]} votes
 * @property {'waiting'|'approved'|'denied'|'expired'|'ended'} state `ended`: the caller has cancelled it or left, or it could not be stored
 */

/** What a person may do beyond the topic's settings; from the session. @typedef {{permissions?: string[], capabilities?: string[], creates_topics?: boolean}} TokenRights */

const SETTINGS = 'notifications/topic/settings';
const REQUESTED = 'notifications/approval/requested';
const DECIDED = 'notifications/approval/decided';

/** The roles that every topic has. */
const ROLES = /** @type {Record<string, string[]>} */ ({ owner: ['*'], member: ['read', 'say', 'call:*/*', 'offer'], observer: ['read'] });

/** @param {unknown} value @returns {string[]} */
const texts = (value) => (Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []);

export class Control {
  constructor() {
    /** @type {TopicSettings|null} the newest that are known; null: nothing is known of them */
    this.settings = null;
    /** @type {Map<string, Approval>} by the held envelope's id */
    this.approvals = new Map();
    /** @type {TopicSettings|null} those of the notice that was folded last, which a change is told against */
    this.folded = null;
  }

  /** All notices are folded again. */
  restart() {
    this.approvals = new Map();
    this.folded = null;
  }

  /** Settings that were read somewhere else than in the log. @param {TopicSettings} settings */
  learn(settings) {
    if (!this.settings || settings.version >= this.settings.version) this.settings = settings;
  }

  /**
   * Takes a notice of the gateway's own.
   * @param {Envelope} envelope
   * @returns {{settings: TopicSettings, before: TopicSettings|null}|{approval: Approval}|null} null: it is another notification
   */
  notice(envelope) {
    if (envelope.from !== GATEWAY) return null;
    const { method, params } = envelope.payload;
    if (method === SETTINGS && typeof params?.settings?.version === 'number') return this.changed(params.settings);
    if (method === REQUESTED && typeof params?.id === 'string' && typeof params.request === 'string') return { approval: this.held(envelope) };
    const approval = method === DECIDED ? this.approvals.get(params?.id) : undefined;
    if (!approval || params.digest !== approval.digest) return null;
    this.decided(approval, envelope);
    return { approval };
  }

  /** @param {TopicSettings} settings */
  changed(settings) {
    const before = this.folded ?? (settings.version === 1 ? { version: 0 } : null);
    this.folded = settings;
    this.learn(settings);
    return { settings, before };
  }

  /** @param {Envelope} envelope @returns {Approval} */
  held({ id: notice, payload: { params } }) {
    /** @type {Approval} */
    const approval = {
      id: params.id, notice, request: params.request, digest: String(params.digest), caller: String(params.caller), callee: String(params.callee),
      tool: String(params.tool), approvers: texts(params.approvers), needs: Number(params.needs) || 1, selfApproval: params.self_approval === true,
      expires: Date.parse(params.expires), votes: [], state: 'waiting',
    };
    this.approvals.set(approval.id, approval);
    return approval;
  }

  /** @param {Approval} approval @param {Envelope} envelope */
  decided(approval, { at, payload: { params } }) {
    const reason = typeof params.reason === 'string' ? { reason: params.reason } : {};
    if (typeof params.by === 'string') approval.votes.push({ by: params.by, decision: String(params.decision), at, ...reason });
    if (approval.state !== 'waiting') return;
    if (params.decision === 'denied' || params.decision === 'expired') approval.state = params.decision;
    else if (params.decision === 'dropped') approval.state = 'ended';
    else if (approval.votes.filter(({ decision }) => decision === 'approved').length >= approval.needs) approval.state = 'approved';
  }

  /** Something ends a held call: it is stored, cancelled, or its caller has left. @param {(approval: Approval) => boolean} concerns @param {'approved'|'ended'} state @returns {Approval[]} */
  end(concerns, state) {
    const ended = [...this.approvals.values()].filter((approval) => approval.state === 'waiting' && concerns(approval));
    for (const approval of ended) approval.state = state;
    return ended;
  }
}

/** Whether a change of settings ends what somebody calls. @param {TopicSettings} now @param {TopicSettings|null} before @param {string} id */
export function endsCallsOf(now, before, id) {
  const isNew = (/** @type {(settings: TopicSettings) => boolean} */ holds) => holds(now) && !(before && holds(before));
  const moderates = (/** @type {TopicSettings} */ settings) => allowsAct(capabilitiesOf(settings, roleOf(settings, id) ?? ''), 'moderate');
  return isNew((settings) => roleOf(settings, id) === undefined) || isNew(({ paused = [] }) => paused.includes(id))
    || isNew((settings) => settings.stopped === true && !moderates(settings));
}

/** Whether the caller of a held call takes it back. @param {Approval} approval @param {Envelope} cancelled */
export function isCancelled({ id, caller, request }, cancelled) {
  if (cancelled.from !== caller) return false;
  if (cancelled.correlationId !== undefined) return cancelled.correlationId === id;
  return rawAt(request, ['payload', 'id']) === rawAt(cancelled.raw, ['payload', 'params', 'requestId']);
}

/** The role of a participant; undefined for one that may not enter. @param {TopicSettings} settings @param {string} id */
export function roleOf({ access, members = {}, removed = [], default_role: otherwise = 'member' }, id) {
  if (removed.includes(id)) return undefined;
  return Object.hasOwn(members, id) ? members[id] : access === 'members' ? undefined : otherwise;
}

/** @param {TopicSettings} settings @param {string} role @returns {string[]} */
export function capabilitiesOf({ roles = {} }, role) {
  return (Object.hasOwn(roles, role) ? roles[role] : undefined) ?? ROLES[role] ?? [];
}

/**
 * Whether capabilities allow something: `say`, `moderate`, `approve:robot/move`. Deny overrides allow.
 * @param {string[]} capabilities @param {string} act
 */
export function allowsAct(capabilities, act) {
  const covers = (/** @type {string} */ pattern) => pattern === '*' || pattern === act || coversCall(pattern, act);
  return capabilities.some((each) => covers(each)) && !capabilities.some((each) => each.startsWith('!') && covers(each.slice(1)));
}

/** @param {string} pattern @param {string} act */
function coversCall(pattern, act) {
  const [, kind, calls] = /^(call|approve):(.*)$/s.exec(pattern) ?? [];
  if (kind === undefined || !act.startsWith(`${kind}:`)) return false;
  const slash = act.indexOf('/');
  return allows(calls, { participant: act.slice(kind.length + 1, slash), tool: act.slice(slash + 1) });
}

/**
 * Whether a participant may do something in a room, as far as the page knows: the gateway decides.
 * @param {TopicSettings|null} settings @param {string} me @param {TokenRights} token @param {string} act
 */
export function mayDo(settings, me, token, act) {
  const limited = token.capabilities === undefined || allowsAct(token.capabilities, act);
  if (!limited || !settings) return false;
  const isOperator = token.permissions?.includes('operator') === true;
  if (settings.version === 0 && (act === 'manage' || act === 'moderate')) return token.creates_topics === true;
  const role = roleOf(settings, me);
  return isOperator || (role !== undefined && allowsAct(capabilitiesOf(settings, role), act));
}

/** Whether somebody may decide about a held call. @param {Approval} approval @param {TopicSettings|null} settings @param {string} me @param {TokenRights} token */
export function mayDecide(approval, settings, me, token) {
  const { approvers, caller, callee, tool, selfApproval } = approval;
  if (caller === me && !selfApproval) return false;
  const act = `approve:${callee}/${tool}`;
  if (approvers.length === 0) return mayDo(settings, me, token, act);
  if (token.capabilities !== undefined && !allowsAct(token.capabilities, act)) return false;
  const role = settings ? roleOf(settings, me) : undefined;
  return token.permissions?.includes('operator') === true || approvers.includes(me) || (role !== undefined && approvers.includes(`role:${role}`));
}

/** The host's tools for control: what comes of a call is told by a notice, so the call itself is folded away. @param {string} tool */
export function isControlTool(tool) {
  return /^(topic|approval|participant)\.|^room\.(stop|resume)$|^message\.(status|redact)$|^presence\.set$/.test(tool);
}
