import { html, useEffect, useState } from '../../vendor/ui.js';
import { useRevision, useSalon } from '../app.js';

const WORDS = {
  connecting: 'Connecting', live: 'Live', stalled: 'Waiting', waiting: 'Not connected', closed: 'Not connected', replaced: 'Not connected',
  'signed-out': 'Signed out', another: 'Signed out',
};

/** How the connection stands, in a word. */
export function ConnectionDot() {
  const { connection } = useSalon();
  useRevision(connection);
  const { name, why } = connection.state;
  return html`<span class="dot" data-state=${name} role="status" title=${why ?? WORDS[name]}><span class="dot-word">${WORDS[name]}</span></span>`;
}

/** What is the matter with the connection and what can be done; nothing while it is well. */
export function ConnectionBanner() {
  const salon = useSalon();
  const { connection } = salon;
  useRevision(connection);
  const { name, why, since } = connection.state;
  const slow = useLater(name === 'connecting' ? since : null, 1500);
  if (name === 'waiting') {
    return html`
      <div class="banner warn" role="status">
        <span>${why} <${Countdown} until=${connection.state.retryAt ?? 0} /></span>
        <button type="button" onClick=${() => connection.tryNow()}>Try now</button>
      </div>`;
  }
  if (name === 'connecting' && slow) return html`<div class="banner warn" role="status"><span>Connecting…</span></div>`;
  if (name === 'stalled') return html`<div class="banner warn" role="status"><span>${why}</span></div>`;
  if (name === 'replaced') {
    return html`
      <div class="banner warn" role="status">
        <span>${why}</span>
        <button type="button" onClick=${() => connection.tryNow()}>Take it back</button>
      </div>`;
  }
  if (name === 'closed') {
    return html`
      <div class="banner bad" role="alert">
        <span>${why ?? 'The room was left.'}</span>
        <button type="button" onClick=${() => salon.go({ view: 'lobby' })}>Other rooms</button>
      </div>`;
  }
  return null;
}

/** @param {{until: number}} props */
function Countdown({ until }) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [until]);
  const seconds = Math.max(1, Math.ceil((until - now) / 1000));
  // Read aloud once, not every second.
  return html`<span aria-hidden="true">Trying again in ${seconds} s.</span>`;
}

/** Whether so much time has passed. @param {number|null} since @param {number} ms */
function useLater(since, ms) {
  const [passed, setPassed] = useState(false);
  useEffect(() => {
    setPassed(false);
    if (since === null) return undefined;
    const timer = setTimeout(() => setPassed(true), ms);
    return () => clearTimeout(timer);
  }, [since]);
  return passed;
}

/** Short messages that go away by themselves. */
export function Toasts() {
  const salon = useSalon();
  useRevision(salon);
  return html`
    <div class="toasts" role="status" aria-live="polite">
      ${salon.toasts.map((toast) => html`
        <div key=${toast.key} class=${`toast ${toast.tone}`}>
          ${toast.act ? html`<button type="button" class="link" onClick=${() => { salon.unsay(toast); toast.act?.(); }}>${toast.text}</button>`
            : html`<span>${toast.text}</span>`}
          <button type="button" class="plain" aria-label="Dismiss" onClick=${() => salon.unsay(toast)}>✕</button>
        </div>`)}
    </div>
  `;
}
