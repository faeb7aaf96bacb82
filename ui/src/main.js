// Begins the page.

import { html, render } from '../vendor/ui.js';
import { Salon, SalonContext } from './app.js';
import { early } from './early.js';
import { Gateway } from './net/session.js';
import { applyTheme } from './view/theme.js';
import { Page } from './view/page.js';

applyTheme();
const salon = new Salon(new Gateway(undefined, early));
const place = document.getElementById('page');
if (place) render(html`<${SalonContext.Provider} value=${salon}><${Page} /><//>`, place);
void salon.start();
