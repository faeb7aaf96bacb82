import { html, useState } from '../../vendor/ui.js';
import { said, useSalon } from '../app.js';
import { HttpProblem } from '../net/session.js';
import { Mark } from './icons.js';

/** Takes a token. The token goes to the gateway and is kept nowhere in the page. @param {{again?: boolean}} props */
export function SignIn({ again = false }) {
  const salon = useSalon();
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(salon.account.linkProblem);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (token.trim() === '' || busy) return;
    setBusy(true);
    setProblem('');
    try {
      await salon.account.signIn(token.trim());
    } catch (error) {
      const wrong = error instanceof HttpProblem && error.status === 401;
      setProblem(wrong ? `The gateway does not take this token: ${error.message}` : said(error));
      setBusy(false);
    }
    setToken('');
  };
  return html`
    <form class="signin" onSubmit=${submit}>
      ${!again && html`<${Mark} />`}
      <h1>${again ? 'Sign in again' : 'Salon'}</h1>
      <p class="faint">${again
        ? 'Your session has ended. Sign in, and you are back in the same place with nothing missing.'
        : 'Rooms where people and agents talk, and use each other’s tools.'}</p>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" spellcheck=${false} autocapitalize="off" autofocus required
        value=${token} aria-invalid=${problem !== ''} aria-describedby=${problem ? 'signin-problem' : 'signin-hint'}
        onInput=${(/** @type {any} */ event) => setToken(event.currentTarget.value)} />
      ${problem && html`<p id="signin-problem" class="problem" role="alert">${problem}</p>`}
      <button type="submit" class="primary" disabled=${busy || token.trim() === ''}>${busy ? 'Signing in…' : 'Sign in'}</button>
      ${again && html`<button type="button" onClick=${() => salon.account.forget()}>Leave the room</button>`}
      <details id="signin-hint" class="hint-box">
        <summary>Where do I get a token?</summary>
        <p>On the gateway’s machine:</p>
        <pre><code>salon token --topic 'room:*' --id alice --kind human</code></pre>
        <p>Or let the gateway print a link that signs you in:</p>
        <pre><code>salon serve --open</code></pre>
      </details>
    </form>
  `;
}
