//! What an observation means: the decision tables, the merge and the effects of cf, as pure values.
