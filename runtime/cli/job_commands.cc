// The wiring of `submit`, `job` and `logs`.

#include <functional>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "runtime/cli/commands.h"
#include "runtime/cli/jobs.h"
#include "runtime/process/driver_run.h"

namespace mobula::cli {
namespace {

void add_submit(CLI::App& app, int& code) {
  auto options = std::make_shared<SubmitOptions>();
  auto* command = app.add_subcommand("submit", "run a program on the cluster; it outlives this shell");
  command->footer(
      "PROGRAM with a path (./train) travels with the job; a bare name is looked for in the working folder, then on "
      "the "
      "PATH of the node. Programs below /bin, /sbin, /usr and /lib are the node's own.\n"
      "Prints the job's output and waits for its end, unless --no-wait is given.\n"
      "Exit codes: 0 it succeeded, 1 it failed (its own exit code is shown), 6 it was stopped; others as of mobula.\n"
      "Example: mobula submit --working-dir . --env EPOCHS=3 -- ./train --lr 0.1");
  add_cluster_options(command, options->cluster);
  command->add_option("--working-dir", options->working_dir,
                      "folder that travels with the job and is its working folder there (without .git)");
  command->add_option("--env", options->environment, "NAME=VALUE for the program; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--exclude", options->exclude, "files or folders (globs) that stay here; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--num-cpus,--entrypoint-num-cpus", options->cpus, "CPUs that the program itself holds")
      ->capture_default_str();
  command->add_option("--memory,--entrypoint-memory", options->memory, "bytes of memory that it holds")
      ->transform(CLI::AsSizeValue(false));
  command->add_flag("--no-wait", options->no_wait, "print its id and return");
  command->add_flag("--json", options->json, "JSON instead of text and output");
  command->add_option("command", options->command, "PROGRAM and its arguments, after --")->required();
  command->callback([options, &code] { code = submit(*options); });
}

void add_log_options(CLI::App* command, LogOptions& options) {
  add_cluster_options(command, options.cluster);
  command->add_flag("-f,--follow", options.follow, "go on until it ends");
  command->add_option("--tail", options.tail, "begin with the last lines only");
  command->add_flag("--json", options.json, "a JSON object for each piece");
}

void add_logs(CLI::App& app, int& code) {
  auto options = std::make_shared<LogOptions>();
  auto* command = app.add_subcommand("logs", "what a worker, actor, job or daemon has printed");
  command->footer(
      "ID is that of a worker, actor, job, submission or node, or \"head\". The error stream of workers goes to "
      "standard "
      "error.\nExit codes: 0 done, 5 no such log; others as of mobula.\nExample: mobula logs job-0123456789abcdef "
      "--follow");
  add_log_options(command, *options);
  command->add_option("id", options->id)->required();
  command->callback([options, &code] { code = logs(*options); });
}

void add_jobs(CLI::App& app, int& code) {
  auto* jobs = app.add_subcommand("job", "submitted jobs: status, wait, stop, logs, list");
  jobs->require_subcommand(1);
  jobs->footer("Example: mobula job wait job-0123456789abcdef --timeout 600");
  const auto add = [&](const char* name, const char* text, const char* codes,
                       const std::function<int(const JobOptions&)>& run) {
    auto options = std::make_shared<JobOptions>();
    auto* command = jobs->add_subcommand(name, text);
    command->footer(std::string("Exit codes: ") + codes + "; others as of mobula.\nExample: mobula job " + name +
                    " job-0123456789abcdef");
    add_cluster_options(command, options->cluster);
    command->add_option("id", options->id, "of the submission, or of its job")->required();
    if (std::string(name) == "wait") {
      command->add_option("--timeout", options->timeout, "seconds")->check(CLI::NonNegativeNumber);
    }
    command->add_flag("--json", options->json, "JSON instead of text");
    command->callback([options, run, &code] { code = run(*options); });
  };
  add("status", "how far a job is", "0 shown, 5 no such job", job_status);
  add("wait", "wait for a job's end",
      "0 it succeeded, 1 it failed (its own exit code is shown), 6 it was stopped, 7 it has not ended in time, 5 no "
      "such job",
      job_wait);
  add("stop", "end a job: SIGTERM to all its processes, SIGKILL after 5 s", "0 it has ended, 5 no such job", job_stop);

  auto log_options = std::make_shared<LogOptions>();
  auto* log = jobs->add_subcommand("logs", "what a job has printed");
  log->footer(
      "Exit codes: 0 done, 5 no such log; others as of mobula.\nExample: mobula job logs job-0123456789abcdef "
      "--follow");
  add_log_options(log, *log_options);
  log->add_option("id", log_options->id)->required();
  log->callback([log_options, &code] { code = logs(*log_options); });

  auto cluster = std::make_shared<ClusterOptions>();
  auto table = std::make_shared<TableOptions>();
  auto* all = jobs->add_subcommand("list", "all jobs, as `mobula list jobs`");
  all->footer("Example: mobula job list");
  add_cluster_options(all, *cluster);
  all->add_flag("--json", table->json);
  all->callback([cluster, table, &code] { code = list(*cluster, "jobs", *table); });
}

// How a node daemon starts a submitted program.
void add_run_driver(CLI::App& app, int& code) {
  auto run = std::make_shared<process::DriverRun>();
  auto* command = app.add_subcommand("run-driver", "what a node starts submitted programs with")->group("");
  command->add_option("--folder", run->folder)->required();
  command->add_option("--archive", run->archive);
  command->add_option("--descriptor-limit", run->descriptor_limit);
  command->add_option("--parent", run->parent);
  command->add_option("--report-fd", run->report_fd);
  command->add_option("command", run->command)->required();
  command->callback([run, &code] { code = process::run_driver(*run); });
}

}  // namespace

void add_cluster_options(CLI::App* app, ClusterOptions& cluster) {
  app->add_option("--address", cluster.address,
                  "HOST:PORT of the head (default: MOBULA_ADDRESS, then the cluster file's)");
  app->add_option("--cluster-file", cluster.cluster_file,
                  "cluster file (default: MOBULA_CLUSTER_FILE, then ~/.mobula/cluster.json)");
}

void add_job_commands(CLI::App& app, int& code) {
  add_submit(app, code);
  add_jobs(app, code);
  add_logs(app, code);
  add_run_driver(app, code);
}

}  // namespace mobula::cli
