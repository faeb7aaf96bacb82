// The tools that a person in a browser offers.

export const PERSON_TOOLS = [
  {
    name: 'ask_human',
    title: 'Ask the person',
    description: 'Asks the person and waits for the answer, which may take long or never come.',
    inputSchema: {
      type: 'object',
      properties: {
        question: { type: 'string', minLength: 1, description: 'What to ask' },
        choices: {
          type: 'array', items: { type: 'string' }, maxItems: 50,
          description: 'Answers to choose from; the person may still write another',
        },
      },
      required: ['question'],
    },
    outputSchema: { type: 'object', properties: { answer: { type: 'string' } }, required: ['answer'] },
  },
  {
    name: 'show_human',
    title: 'Show the person something',
    description: 'Shows the person a text. Says whether they have it on their screen or will find it when they look; waits for no answer.',
    inputSchema: {
      type: 'object',
      properties: { text: { type: 'string', minLength: 1, description: 'What to show' } },
      required: ['text'],
    },
  },
];
