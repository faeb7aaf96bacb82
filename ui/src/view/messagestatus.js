/** What has become of a message: who has got it, who has acknowledged it, what it was answered with. */

import { html, useEffect, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { nameOf } from '../model/people.js';
import { listed, moment } from '../model/text.js';
import { callHost } from '../net/host.js';

/** How many are named. */
const MAX_NAMED = 20;

/** @typedef {{by: string, at: string, id: string}} Receipt */

/** @param {{id: string}} props of the message */
export function MessageStatus({ id }) {
  const { room, peer } = useSalon();
  const [status, setStatus] = useState(/** @type {any} */ (null));
  const [problem, setProblem] = useState('');
  useEffect(() => {
    callHost(peer, 'message.status', { id }).then(setStatus, (error) => setProblem(said(error)));
  }, [id]);
  if (problem) return html`<p class="error-note" role="alert">${problem}</p>`;
  if (!status) return html`<p class="faint" role="status">Asking the gateway…</p>`;
  const names = (/** @type {unknown} */ ids) => (Array.isArray(ids) ? listed(ids.map((each) => nameOf(room.people, String(each))), MAX_NAMED) : '');
  const receipts = (/** @type {unknown} */ list) => (Array.isArray(list) ? names(list.map((/** @type {Receipt} */ { by }) => by)) : '');
  const lines = [
    ['Stored', moment(Date.parse(status.stored_at))], ['Delivered to', names(status.delivered_to) || 'nobody yet'], ['Not yet at', names(status.pending)],
    ['Unknown', names(status.unknown)], ['Acknowledged by', receipts(status.acknowledged_by)], ['Answered by', status.answered ? nameOf(room.people, status.answered.by) : ''],
  ];
  return html`
    <div class="message-status" role="status">
      <dl>${lines.filter(([, text]) => text).map(([name, text]) => html`<dt key=${name}>${name}</dt><dd>${text}</dd>`)}</dl>
    </div>`;
}
