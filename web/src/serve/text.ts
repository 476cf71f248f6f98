// Words of the pages of `prony serve`, in the language that is spoken. Those of the report stand in ../text.

import { spoken, type Language } from "../text";
import { en } from "./text/en";
import { zh } from "./text/zh";

export type Words = typeof en;

export const WORDS: Record<Language, Words> = { en, zh };

/** Read when something is drawn, never before. */
export const words = (): Words => WORDS[spoken];
