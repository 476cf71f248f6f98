// Rows as CSV (RFC 4180), for spreadsheets.

export const csvOf = (rows: string[][]): string => rows.map((row) => `${row.map(field).join(",")}\n`).join("");

const field = (text: string): string => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
