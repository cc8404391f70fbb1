/** What Vite gives for files that are not code. */
declare module "*.css";
declare module "*.css?inline" {
  const text: string;
  export default text;
}
