// Generated from crates/prony-web/src/api.rs by `cargo xtask codegen`. Do not edit.

import type { RunSummary } from "./types";

/** How a started experiment is. */
export type JobState = "running" | "stopping" | "ended" | "cut-short";

/** Why something was not done, and what to do next. */
export interface Problem {
  /** In a sentence. */
  error: string;
}

/** What this server is. */
export interface About {
  /** Version of prony. */
  version: string;
  /** The folder of runs. */
  runs_folder: string;
  /** Whether experiments can be started here. */
  can_start: boolean;
  /** Whether stack files can be edited here. */
  can_edit: boolean;
}

/** Runs that were asked for, the newest first. */
export interface RunList {
  /** How many there are, shown or not. */
  total: number;
  /** Those that are shown. */
  runs: RunSummary[];
  /** Stacks of all runs of the folder. */
  stacks: Counted[];
  /** Tags of all runs of the folder. */
  tags: Counted[];
  /** Files that could not be read, and why. */
  unreadable: string[];
}

/** A name and how many runs have it. */
export interface Counted {
  /** The name. */
  name: string;
  /** Runs. */
  runs: number;
}

/** The tags that a run shall have. */
export interface TagsWanted {
  /** All of them; an empty list takes them away. */
  tags: string[];
}

/** Experiments that can be started here. */
export interface ExperimentList {
  /** Those of the folders that the server was given. */
  experiments: ExperimentFile[];
  /** The one that runs: there is never more than one, because two loads disturb each other. */
  running: string | null;
}

/** An experiment as its file says. */
export interface ExperimentFile {
  /** The file, as the server names it. */
  file: string;
  /** What it is called. */
  name: string;
  /** Where the question comes from. */
  about: string;
  /** What is expected. */
  expectation: string;
  /** What is asked of each cell. */
  asks: string;
  /** Cells of each repeat. */
  cells: number;
  /** Repeats. */
  repeats: number;
  /** What is wrong with the file; none when it can be started. */
  wrong: string | null;
}

/** An experiment that shall be started. */
export interface JobWanted {
  /** The file, as the list names it. */
  file: string;
  /** Shorter trials, three repeats at most: wider intervals. */
  quick: boolean;
}

/** Experiments that were started here, the newest first. */
export interface JobList {
  /** All of them. */
  jobs: Job[];
}

/** An experiment that was started here. */
export interface Job {
  /** Its id, which is the name of its folder. */
  id: string;
  /** The experiment's file. */
  file: string;
  /** What the experiment is called. */
  name: string;
  /** With shorter trials. */
  quick: boolean;
  /** Start, in UTC. */
  started: string;
  /** Start in milliseconds since 1970. */
  started_unix_ms: number;
  /** How it is. */
  state: JobState;
  /** Its exit code; none while it runs, and when a signal ended it. */
  exit_code: number | null;
}

/** A started experiment with what it said and recorded. */
export interface JobView {
  /** Which. */
  job: Job;
  /** Its progress, the newest line last. */
  lines: string[];
  /** Its result; empty before its end. */
  result: string;
  /** Its runs, the newest first. */
  runs: RunSummary[];
}

/** Stack files that can be edited here. */
export interface StackFiles {
  /** Those of the folders that the server was given. */
  files: StackFile[];
  /** Folders in which a new one can be made. */
  folders: string[];
}

/** A stack file. */
export interface StackFile {
  /** The file, as the server names it. */
  file: string;
  /** What the stack is called. */
  name: string;
  /** What is wrong with it; none when it can be used. */
  wrong: string | null;
}

/** The text of a stack file. */
export interface StackText {
  /** The file. */
  file: string;
  /** Its text. */
  text: string;
  /** Which version this is: has to come back with a change. */
  version: string;
}

/** A stack file as it shall be. */
export interface StackWanted {
  /** Its text. */
  text: string;
  /** The version that was changed; empty for a new file. */
  version: string;
}

/** A text that shall be checked as if it were that file. */
export interface CheckWanted {
  /** The file, as the server names it; any name for a text that is nowhere. */
  file: string;
  /** The text. */
  text: string;
}

/** What was found in a stack file. */
export interface Checked {
  /** Whether prony would take it. */
  right: boolean;
  /** What is wrong; empty when nothing is. */
  messages: CheckMessage[];
  /** What the stack is, in a line; empty when it is wrong. */
  summary: string;
  /** The version that is stored; empty when nothing was stored. */
  version: string;
}

/** A mistake. */
export interface CheckMessage {
  /** The file that has it: this one, or one that it builds on. */
  file: string;
  /** Line, from 1; 0 when the whole file is meant. */
  line: number;
  /** What is wrong and what would be right. */
  text: string;
}
