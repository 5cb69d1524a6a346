// Sphinx's scores of search results, but a title that has the whole query comes before pages that have its words.
var Scorer = {
  score: ([page, title, anchor, description, score, file, kind]) => (kind === "title" ? 100 + score : score),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
