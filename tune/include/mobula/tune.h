// Parallel hyperparameter search: spaces, schedulers, trials, tune::run.
#pragma once

#include <mobula/tune/outcome.h>
#include <mobula/tune/run.h>
#include <mobula/tune/run_options.h>
#include <mobula/tune/scheduler.h>
#include <mobula/tune/space.h>
#include <mobula/tune/status.h>
#include <mobula/tune/trial.h>
#include <mobula/tune/value.h>
