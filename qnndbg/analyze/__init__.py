"""Pure functions from recorded values to answers; numpy and the model, no I/O, nothing of torch."""
