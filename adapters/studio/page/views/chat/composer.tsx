/** Edits the next turn: a message with attachments, a form of the input schema, or raw JSON. */
import type { VNode } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKey } from "../../frame/keyboard.ts";
import { attempt, notify, perform } from "../../frame/notices.tsx";
import { createExample, Discard, Editor, type Schema } from "../../parts/form.tsx";
import { DraftScope, readDraft, saveDraft } from "../../store/drafts.ts";
import type { ContentBlock } from "./messages.ts";

export type InputMode = "message" | "input";

interface ComposerProps {
  /** The key of the draft, which stays in this tab. */
  readonly draftKey: string;
  readonly assistant_id: string | null;
  readonly schema: Schema | null;
  /** False: the agent's input has no messages. */
  readonly hasMessages: boolean;
  readonly mode: InputMode;
  readonly setMode: (mode: InputMode) => void;
  readonly running: boolean;
  readonly disabled: boolean;
  /** True for an empty conversation, whose box takes the focus. */
  readonly isFresh: boolean;
  /** Rejects if no run was started; the draft is then restored. */
  readonly send: (input: unknown) => Promise<void>;
  readonly stop: () => void;
}

interface Attachment {
  /** An id, because two files may have the same name. */
  readonly id: string;
  readonly name: string;
  readonly block: ContentBlock;
}

const MAX_ATTACHMENT_BYTES = 10 * 1024 * 1024;

/** Reads a file as text or as a data URL. Rejects if it cannot be read. */
function readFile(file: File, as: "text" | "data"): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    if (as === "text") reader.readAsText(file);
    else reader.readAsDataURL(file);
  });
}

/**
 * Resolves with a file as a content block, by its type: a text file as text below its name, an image as a data URL,
 * every other file as base64. Rejects if it cannot be read.
 */
async function toContentBlock(file: File): Promise<ContentBlock> {
  if (/^text\/|json$|xml$|yaml$/.test(file.type)) {
    return { type: "text", text: `${file.name}:\n\n${await readFile(file, "text")}` };
  }
  const url = await readFile(file, "data");
  if (file.type.startsWith("image/")) return { type: "image_url", image_url: { url } };
  const data = url.slice(url.indexOf(",") + 1);
  return { type: "file", source_type: "base64", mime_type: file.type, data, metadata: { filename: file.name } };
}

const toMessageDraftKey = (draftKey: string): string => `message ${draftKey}`;
/** The draft key of the box that had the focus when it was removed. The next box with that key takes the focus again. */
let lastFocusedDraftKey = "";

/** Returns a UUID. Works without a secure context, where `crypto.randomUUID` is missing. */
export function createId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

/** Returns the input with one message of a person, with a new id. Its content is the text, or a list with the blocks. */
export function createMessageInput(text: string, blocks: readonly ContentBlock[] = []): unknown {
  const content = blocks.length === 0 ? text : [...(text ? [{ type: "text", text }] : []), ...blocks];
  return { messages: [{ type: "human", content, id: createId() }] };
}

/** Returns true if the schema has messages, or if there is no schema. */
export const acceptsMessages = (schema: Schema | null): boolean =>
  !schema?.properties || "messages" in schema.properties;

/**
 * Returns an example that fits a schema; `{}` without one. If the agent takes messages and the example has none, adds
 * the message "Hello", because an empty list starts nothing.
 */
export function createExampleInput(schema: Schema | null): unknown {
  const example = createExample(schema) ?? {};
  if (typeof example !== "object" || Array.isArray(example)) return example;
  const { messages } = example as { readonly messages?: unknown };
  if (!acceptsMessages(schema) || (Array.isArray(messages) && messages.length > 0)) return example;
  return { ...example, messages: [{ role: "user", content: "Hello" }] };
}

/**
 * Shows the box for a message, with files. What is typed is a draft; it is cleared when it is sent and comes back if that fails.
 */
function MessageBox({ draftKey, running, disabled, isFresh, send, stop }: ComposerProps): VNode {
  const text = readDraft(toMessageDraftKey(draftKey), "");
  const setText = (typed: string): void => saveDraft(toMessageDraftKey(draftKey), typed || undefined);
  const [files, setFiles] = useState<readonly Attachment[]>([]);
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => {
    // On a touch screen the keyboard would cover the page.
    if (lastFocusedDraftKey === draftKey || (isFresh && matchMedia("(pointer: fine)").matches)) box.current?.focus();
    lastFocusedDraftKey = "";
    return () => {
      if (document.activeElement === box.current) lastFocusedDraftKey = draftKey;
    };
  }, []);
  useLayoutEffect(() => {
    const { current } = box;
    if (!current) return;
    current.style.height = "auto";
    current.style.height = `${Math.min(current.scrollHeight, 240)}px`;
  }, [text, draftKey]);
  /**
   * Reads the files in turn and adds each to the message. A file of more than 10 MB is left out, with a notice. Rejects if one
   * cannot be read.
   */
  const add = async (list: readonly File[]): Promise<void> => {
    for (const file of list) {
      if (file.size > MAX_ATTACHMENT_BYTES) {
        notify(`${file.name} is larger than 10 MB`, "failed");
        continue;
      }
      const added = { id: createId(), name: file.name, block: await toContentBlock(file) };
      setFiles((before) => [...before, added]);
    }
  };
  /**
   * Sends the message with its files and clears the box at once. If that fails, text and files come back, unless others were
   * typed or added meanwhile, and a notice is shown. Does nothing if the box is disabled, or without text and files.
   */
  const sendMessage = (): void => {
    if (disabled || (!text.trim() && files.length === 0)) return;
    const blocks = files.map(({ block }) => block);
    void perform("Send", () =>
      send(createMessageInput(text, blocks)).catch((error: unknown) => {
        setText(readDraft(toMessageDraftKey(draftKey), "") || text);
        setFiles((added) => (added.length > 0 ? added : files));
        throw error;
      }),
    );
    setText("");
    setFiles([]);
    box.current?.focus();
  };
  useKey("mod+Enter", "Send", sendMessage, { inFields: true });
  return (
    <>
      {files.length > 0 ? (
        <ul class="files">
          {files.map(({ id, name }) => (
            <li key={id}>
              📎 {name}
              <button
                type="button"
                class="quiet"
                aria-label={`Remove ${name}`}
                onClick={() => setFiles(files.filter((file) => file.id !== id))}
              >
                ✕
              </button>
            </li>
          ))}
        </ul>
      ) : null}
      <div class="message-box">
        <textarea
          ref={box}
          rows={1}
          aria-label="Message"
          placeholder="Message…"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={(event) => {
            const pasted = event.clipboardData?.files;
            if (!pasted?.length) return;
            event.preventDefault();
            void add([...pasted]);
          }}
          onKeyDown={(event) => {
            // Back to the keys of the page; while something runs, the key stops it.
            if (event.key === "Escape" && !running) event.currentTarget.blur();
            if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.ctrlKey || event.metaKey) return;
            event.preventDefault();
            sendMessage();
          }}
        />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            // The list empties with the value.
            void add([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = "";
          }}
        />
        <button
          type="button"
          class="quiet"
          aria-label="Attach files"
          title="Attach files"
          onClick={() => picker.current?.click()}
        >
          +
        </button>
        {running ? (
          <button type="button" class="stop" onClick={stop}>
            Stop
          </button>
        ) : null}
        <button
          type="button"
          class="primary"
          disabled={disabled || (!text.trim() && files.length === 0)}
          onClick={sendMessage}
        >
          Send
        </button>
      </div>
    </>
  );
}

/** Shows the input of the next run: a message, or the form of the whole input, which is kept as a draft for each assistant. */
export function Composer(props: ComposerProps): VNode {
  const { assistant_id, schema, hasMessages, mode, setMode, running, disabled, send, stop } = props;
  // Another assistant takes another input.
  const draftKey = `input ${props.draftKey} ${assistant_id}`;
  const input = readDraft(draftKey, createExampleInput(schema));
  return (
    <div class="composer">
      {mode === "message" ? (
        <MessageBox {...props} />
      ) : (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            attempt("Run", () => send(input));
          }}
        >
          <DraftScope.Provider value={draftKey}>
            <Editor
              key={assistant_id}
              schema={schema}
              label="Input"
              value={input}
              change={(value) => saveDraft(draftKey, value ?? null)}
            />
          </DraftScope.Provider>
          <div class="buttons">
            <button type="submit" class="primary" disabled={disabled}>
              Run
            </button>
            {running ? (
              <button type="button" class="stop" onClick={stop}>
                Stop
              </button>
            ) : null}
            <Discard draftKey={draftKey} />
          </div>
        </form>
      )}
      {hasMessages ? (
        <div class="modes" role="group" aria-label="Input">
          {(["message", "input"] as const).map((option) => (
            <button
              key={option}
              type="button"
              class="quiet"
              aria-pressed={option === mode}
              onClick={() => setMode(option)}
            >
              {option === "message" ? "Message" : "Whole input"}
            </button>
          ))}
        </div>
      ) : null}
    </div>
  );
}
