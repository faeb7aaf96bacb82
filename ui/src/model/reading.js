// A call on one line, for cards and bars. Pure.

import { answered, asked } from './calls.js';
import { exactPayload } from './exact.js';
import { clip } from './text.js';
import { oneLine } from './threads.js';

/** @typedef {import('./types.js').Call} Call */

/** Whether the call asks the callee something, rather than having it do something. @param {Call} call */
export function isQuestion(call) {
  return call.method === 'elicitation/create' || call.method === 'sampling/createMessage' || call.tool === 'ask_human';
}

/** What is called: a tool by its name, anything else by its method. @param {Call} call */
export function titleOf(call) {
  return call.method === 'sampling/createMessage' ? 'asks its model' : asked(call).what;
}

/** The arguments as one would type them. @param {Call} call @param {number} [most] */
export function argumentsLine(call, most = 140) {
  const { tool, params } = call;
  const question = tool === 'ask_human' && params?.arguments?.question;
  return oneLine(typeof question === 'string' ? question : asked({ method: call.method, params: exactPayload(call.request).params }).details, most);
}

/** How it ended; empty while it runs, and where there is nothing to say. @param {Call} call @param {number} [most] */
export function outcomeLine(call, most = 200) {
  // A refusal is the gateway's own, and no answer to read from.
  return oneLine(answered(call.answer?.kind === 'mcp' ? exactPayload(call.answer) : call), most);
}

/** How many lines of a failure are shown. */
const MAX_FAILURE_LINES = 12;

/** Why it failed, with its lines as they are: a traceback on one line is no help. @param {Call} call */
export function failureText(call) {
  const text = answered(call.answer?.kind === 'mcp' ? exactPayload(call.answer) : call).trim();
  const lines = text.split('\n');
  const shown = lines.length > MAX_FAILURE_LINES ? [...lines.slice(0, MAX_FAILURE_LINES), '…'] : lines;
  return clip(shown.join('\n'), 1500);
}
