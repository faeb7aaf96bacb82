import { html, useMemo, useRef, useState } from '../../vendor/ui.js';
import { parseExact, stringifyExact } from '../model/exact.js';
import { repliesTo } from '../model/envelope.js';
import { gist, threadsOf } from '../model/threads.js';
import { clip, moment } from '../model/text.js';
import { useRevision, useSalon } from '../app.js';

/** @typedef {import('../model/types.js').Envelope} Envelope */

/** How much of an envelope is drawn; the whole of it can still be copied. */
const MAX_SHOWN = 200_000;

/**
 * One envelope as it travelled, and what belongs to it.
 * @param {{envelopeId: string}} props
 */
export function Inspector({ envelopeId }) {
  const salon = useSalon();
  useRevision(salon.room);
  const [pretty, setPretty] = useState(true);
  const text = useRef(/** @type {HTMLElement|null} */ (null));
  const envelope = salon.room.envelopes.get(envelopeId);
  const shown = useMemo(() => (envelope && pretty ? indented(envelope.raw) : envelope?.raw ?? ''), [envelope, pretty]);
  if (!envelope) {
    return html`<p class="empty">This envelope is not loaded. Scroll up in the transcript to load older ones.</p>`;
  }

  const copy = async () => {
    try {
      await navigator.clipboard.writeText(shown);
      salon.say('Copied');
    } catch {
      // Not every page may write to the clipboard; the person still can.
      if (text.current) getSelection()?.selectAllChildren(text.current);
      salon.say('Selected: copy it with the keyboard');
    }
  };

  return html`
    <div class="inspector">
      <dl class="facts">
        <dt>from</dt><dd>${envelope.from}</dd>
        <dt>to</dt><dd>${envelope.to.join(', ') || 'everybody'}</dd>
        <dt>kind</dt><dd>${envelope.kind}</dd>
        <dt>sent</dt><dd>${envelope.at ? moment(envelope.at) : envelope.ts}</dd>
        <dt>id</dt><dd><code>${envelope.id}</code></dd>
        <dt>size</dt><dd>${new TextEncoder().encode(envelope.raw).length.toLocaleString()} bytes</dd>
      </dl>
      <${Related} envelope=${envelope} />
      <div class="bar" role="toolbar" aria-label="envelope">
        <button type="button" aria-pressed=${pretty} onClick=${() => setPretty(true)}>Pretty</button>
        <button type="button" aria-pressed=${!pretty} onClick=${() => setPretty(false)}>Raw</button>
        <span class="spring"></span>
        <button type="button" onClick=${copy}>Copy</button>
      </div>
      <pre class="envelope" ref=${text} tabindex="0" aria-label="The envelope">${clip(shown, MAX_SHOWN)}</pre>
    </div>
  `;
}

/** @param {{envelope: Envelope}} props what it replies to, and what came of it */
function Related({ envelope }) {
  const salon = useSalon();
  const { room } = salon;
  const about = repliesTo(envelope);
  const threads = threadsOf(room);
  const call = room.calls.get(envelope.id) ?? (about === undefined ? undefined : room.calls.get(about));
  /** @type {[string, Envelope|undefined][]} */
  const links = [['in reply to', about === undefined ? undefined : room.envelopes.get(about)]];
  if (call) {
    links.push(['asked by', call.request], ['answered by', call.answer]);
    for (const notice of call.notices.slice(-3)) links.push(['about it', notice]);
    for (const sub of (threads.calls.get(call.id) ?? []).slice(0, 10)) links.push(['brought about', sub.request]);
  }
  for (const reply of (threads.replies.get(envelope.id) ?? []).slice(0, 10)) links.push(['reply', reply.envelope]);
  const seen = new Set([envelope.id]);
  const shown = links.filter(([, other]) => other && !seen.has(other.id) && seen.add(other.id));
  return html`
    <ul class="related">
      ${shown.map(([how, other]) => other && html`
        <li key=${other.id}>
          <span class="faint">${how}</span>
          <button type="button" class="link" onClick=${() => salon.open({ panel: 'inspector', id: other.id })}>
            ${other.from}: ${gist(other) || other.kind}
          </button>
        </li>`)}
      <li><button type="button" class="link" onClick=${() => salon.show(envelope.id)}>Show in the transcript</button></li>
    </ul>
  `;
}

/** @param {string} raw */
function indented(raw) {
  try {
    return stringifyExact(parseExact(raw), 2);
  } catch {
    return raw;
  }
}
