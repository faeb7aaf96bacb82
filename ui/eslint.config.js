// What the linter looks for beside the types: mistakes, not style. Run by ui/tests/run.

import js from '@eslint/js';

/** What browsers have, as far as the page uses it. `tsc` knows all of it, and finds what is not defined. */
const UNDEFINED_IS_FOUND_BY_TSC = { 'no-undef': 'off' };

export default [
  { ignores: ['node_modules/**', 'vendor/**'] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2025, sourceType: 'module' },
    linterOptions: { reportUnusedDisableDirectives: 'error' },
    rules: {
      ...UNDEFINED_IS_FOUND_BY_TSC,
      'array-callback-return': 'error',
      'consistent-return': 'off',
      eqeqeq: 'error',
      'no-constructor-return': 'error',
      'no-eval': 'error',
      'no-implied-eval': 'error',
      'no-new-func': 'error',
      'no-promise-executor-return': ['error', { allowVoid: true }],
      'no-self-compare': 'error',
      'no-template-curly-in-string': 'error',
      'no-unreachable-loop': 'error',
      'no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrors: 'none', ignoreRestSiblings: true }],
      'no-useless-assignment': 'off',
      'no-var': 'error',
      'prefer-const': 'error',
      'require-atomic-updates': 'off',
    },
  },
  // A page of tests runs in two worlds: what is evaluated in the browser uses its names.
  { files: ['tests/**'], rules: { 'no-promise-executor-return': 'off', 'no-template-curly-in-string': 'off' } },
];
