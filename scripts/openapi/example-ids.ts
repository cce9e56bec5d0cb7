/** The ids that the examples of the OpenAPI document have. The test that sends the examples replaces those that a server chooses. */

export const THREAD = "7a9d5c1e-52b4-4f0e-9d36-2f1b8c6a4e10";
export const RUN = "0198c3f2-4b7a-7c11-a6d0-3e5f9b2c8d47";
export const ASSISTANT = "c4e1b7d2-8f36-4a59-b0c7-6d2e9a1f5b83";
export const CRON = "0198c3f2-9e25-7d80-8b41-7a6c2f0e1d95";
export const CHECKPOINT = "1f0c6ce8-6d1e-6a10-8001-5d2a3b1c0f42";
/** The id of a feedback link, which is also its token. */
export const LINK = "5e2f8b90-1c4d-4e7a-9f63-0b8d7c6a5e21";
export const FEEDBACK = "9b3c6d1f-7e20-4a85-8d94-1f6e5c0b2a73";
export const WORKSPACE = "2d7f4e8a-3b61-4c95-a1d8-9e0c6b5f7a34";
/** The address of a `wait`, which a durable function hands out. */
export const ADDRESS = "mV3kQ9xT2bL7rW5nY8cH4jD6fS1gP0za";
