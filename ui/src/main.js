// Begins the page.

import { html, render } from '../vendor/ui.js';
import { Salon, SalonContext } from './app.js';
import { applyTheme } from './view/theme.js';
import { Page } from './view/shell.js';

applyTheme();
const salon = new Salon();
const place = document.getElementById('page');
if (place) render(html`<${SalonContext.Provider} value=${salon}><${Page} /><//>`, place);
void salon.start();
