// Mobula: tasks, actors and objects on a cluster. This is the one header that a program needs.
//
//   mobula::Runtime runtime = mobula::init(argc, argv);
//   mobula::ObjectRef<int> three = mobula::remote<plus>(1, 2);
//   int value = mobula::get(three);
#pragma once

#include <mobula/actor.h>
#include <mobula/archive.h>
#include <mobula/array.h>
#include <mobula/cancel.h>
#include <mobula/current.h>
#include <mobula/error.h>
#include <mobula/get.h>
#include <mobula/object_ref.h>
#include <mobula/options.h>
#include <mobula/outcome.h>
#include <mobula/put.h>
#include <mobula/remote.h>
#include <mobula/runtime.h>
#include <mobula/tensor.h>
#include <mobula/wait.h>
