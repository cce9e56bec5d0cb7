/** An object whose members may be absent where `Value` allows undefined. */
type WithoutUndefined<Value> = {
  [Key in keyof Value as undefined extends Value[Key] ? never : Key]: Value[Key];
} & {
  [Key in keyof Value as undefined extends Value[Key] ? Key : never]?: Exclude<Value[Key], undefined>;
};

/** Returns the members of an object that are not undefined, for types whose members may be absent but not undefined. */
export function omitUndefined<Value extends object>(value: Value): WithoutUndefined<Value> {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as never;
}
