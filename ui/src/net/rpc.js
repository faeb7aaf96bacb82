// Errors of JSON-RPC.

/** A JSON-RPC error: rejects `request` when the other answers with one; thrown by a handler, it is the answer. */
export class RpcError extends Error {
  /** @param {number|string} code @param {string} message @param {any} [data] */
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** @param {unknown} error */
export function asError(error) {
  if (!(error instanceof RpcError)) return { code: -32603, message: error instanceof Error ? error.message : String(error) };
  const { code, message, data } = error;
  return data === undefined ? { code, message } : { code, message, data };
}

/** What a stranger says, if it is words: anything else could do what it likes when made into some. @param {unknown} value */
export const wordsOf = (value) => (typeof value === 'string' ? value : undefined);
