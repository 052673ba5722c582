// Marks what libmobula.so exports; all else in it is hidden, so that it never clashes with the user's libraries.
#pragma once

#if defined(__GNUC__)
#define MOBULA_API __attribute__((visibility("default")))
#else
#define MOBULA_API
#endif
