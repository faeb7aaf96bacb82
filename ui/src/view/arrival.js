// Where the focus is when something is shown.

import { useEffect } from '../../vendor/ui.js';

/** Whether nothing has the focus, because what had it is gone or covered. */
export function isAdrift() {
  return document.activeElement === null || document.activeElement === document.body;
}

/** Whether the page has shown anything before: at first the focus is at the beginning, where it belongs. */
let arrived = false;

/**
 * In a room the person can write at once, and letters are no commands. Where the focus would bring up a keyboard over half of the screen it goes
 * to the view instead; and at first to nothing, at the beginning of the page.
 */
export function useArrival() {
  useEffect(() => {
    const composer = matchMedia('(pointer: fine)').matches ? document.getElementById('composer') : null;
    if (isAdrift()) (composer ?? (arrived ? document.getElementById('main') : null))?.focus();
    arrived = true;
  }, []);
}
