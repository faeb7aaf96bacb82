// The rules of a room for calls, in words and as the gateway takes them. Pure.

import { count, duration } from './text.js';

/** What somebody enters for a new rule. @typedef {{effect: 'hold'|'allow'|'deny', participant: string, tool: string, approvers: string, needs: string, minutes: string, callers: string}} RuleDraft */

/** @param {string} text names with commas between them */
const names = (text) => text.split(',').map((each) => each.trim()).filter(Boolean);

/** @param {RuleDraft} draft @returns {Record<string, any>} */
export function ruleOf({ effect, participant, tool, approvers, needs, minutes, callers }) {
  const calls = `call:${participant.trim() || '*'}/${tool.trim() || '*'}`;
  const hold = effect === 'hold'
    ? { ...(names(approvers).length > 0 ? { approvers: names(approvers) } : {}), needs: Math.round(Number(needs)) || 1, expires_ms: Math.round((Number(minutes) || 5) * 60_000) } : {};
  return { [effect]: calls, ...hold, ...(names(callers).length > 0 ? { callers: names(callers) } : {}) };
}

const EFFECTS = { hold: 'Hold for approval', allow: 'Allow', deny: 'Refuse' };

/** @param {any} rule @returns {{effect: string, calls: string, details: string}} */
export function ruleText(rule) {
  const effect = /** @type {keyof typeof EFFECTS} */ (['hold', 'allow', 'deny'].find((key) => typeof rule?.[key] === 'string') ?? 'hold');
  const { approvers = [], needs = 1, expires_ms: expires = 300_000, callers = [], self_approval: self = false } = rule ?? {};
  const details = [
    callers.length > 0 && `calls of ${callers.join(', ')}`,
    effect === 'hold' && `${count(needs, 'approval')} of ${approvers.length > 0 ? approvers.join(', ') : 'anyone who may approve'}`,
    effect === 'hold' && `expires after ${duration(expires)}`, self && 'callers may approve their own calls',
  ];
  return { effect: EFFECTS[effect], calls: String(rule?.[effect] ?? '').replace(/^call:/, ''), details: details.filter(Boolean).join(', ') };
}
