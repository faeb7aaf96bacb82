import { html, useRef, useState } from '../../vendor/ui.js';
import { useSalon } from '../app.js';
import { areNotificationsOn, canNotify, setNotifications } from '../alerts.js';
import { applyTheme, theme } from './theme.js';

/** @typedef {import('./theme.js').Theme} Theme */

/** Who one is, and what concerns the whole page. @param {{onHelp: () => void}} props */
export function AccountMenu({ onHelp }) {
  const salon = useSalon();
  const [now, setNow] = useState(theme());
  const [notifies, setNotifies] = useState(areNotificationsOn());
  const menu = useRef(/** @type {HTMLDetailsElement|null} */ (null));
  const close = () => { if (menu.current) menu.current.open = false; };
  const participant = salon.session?.participant;
  const isOperator = salon.session?.permissions?.some((permission) => permission === 'operator' || permission === 'revoke');
  const choose = (/** @type {any} */ event) => {
    const chosen = /** @type {Theme} */ (event.currentTarget.value);
    applyTheme(chosen);
    setNow(chosen);
  };
  const away = (/** @type {FocusEvent} */ event) => {
    if (event.relatedTarget instanceof Node && menu.current?.contains(event.relatedTarget)) return;
    if (event.relatedTarget) close();
  };
  return html`
    <details class="menu" ref=${menu} onFocusOut=${away}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === 'Escape') { close(); menu.current?.querySelector('summary')?.focus(); } }}>
      <summary aria-label=${`${participant?.name || participant?.id}: settings. You are signed in as ${participant?.id}`}><span class="menu-name">${participant?.name || participant?.id}</span></summary>
      <div class="menu-body">
        <p>Signed in as <b>${participant?.id}</b></p>
        <label>Colours
          <select value=${now} onChange=${choose}>
            <option value="system">as the system</option><option value="light">light</option><option value="dark">dark</option>
          </select>
        </label>
        ${canNotify() && html`<label>Desktop notifications
          <input type="checkbox" checked=${notifies} onChange=${async (/** @type {any} */ event) => setNotifies(await setNotifications(event.currentTarget.checked))} /></label>`}
        <button type="button" onClick=${() => { close(); onHelp(); }}>Keys <kbd>?</kbd></button>
        ${salon.visit && html`<button type="button" onClick=${() => salon.go({ view: 'lobby' })}>Other rooms</button>`}
        ${isOperator && html`<button type="button" onClick=${() => { close(); salon.go({ view: 'lobby', admin: true }); }}>Administration</button>`}
        <button type="button" onClick=${() => void salon.account.signOut()}>Sign out</button>
      </div>
    </details>
  `;
}
