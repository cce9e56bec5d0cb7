/** The similarity of vectors, for the semantic search of store items. */
import type { Vector } from "./items.ts";

/**
 * Returns the highest cosine similarity of the vectors to the query, from -1 to 1. Vectors of another length are ignored;
 * returns null if none is left. A zero vector has the similarity 0.
 */
export function maxCosineSimilarity(vectors: readonly Vector[], query_vector: Vector): number | null {
  const norm = vectorNorm(query_vector);
  let highest: number | null = null;
  for (const vector of vectors) {
    // Made for another index.
    if (vector.length !== query_vector.length) continue;
    const normProduct = norm * vectorNorm(vector);
    const dot = vector.reduce((sum, number, index) => sum + number * (query_vector[index] as number), 0);
    const ratio = dot / normProduct;
    const cosine = Number.isFinite(ratio) ? Math.min(1, Math.max(-1, ratio)) : 0;
    if (highest === null || cosine > highest) highest = cosine;
  }
  return highest;
}

const vectorNorm = (vector: Vector): number => Math.sqrt(vector.reduce((sum, number) => sum + number * number, 0));
