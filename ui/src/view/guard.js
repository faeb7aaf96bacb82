import { html, useEffect, useErrorBoundary } from '../../vendor/ui.js';
import { said } from '../app.js';

/**
 * Keeps a fault in one part of the page from taking down the rest: what is shown comes from others, and somebody will send what
 * nobody thought of.
 * @param {{of: unknown, children?: any}} props `of`: tries again when this changes
 */
export function Guard({ of, children }) {
  const [broken, reset] = useErrorBoundary();
  useEffect(() => { if (broken) reset(); }, [of]);
  if (!broken) return children;
  return html`<p class="broken" role="alert">This cannot be shown: ${said(broken)}</p>`;
}
