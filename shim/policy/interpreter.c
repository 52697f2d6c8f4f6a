/*
 * interpreter.c - a private interpreter in somebody else's process.
 *
 * This file is compiled into the cffi-built policy library, which links a copy of libpython under a name of its own
 * (shim/policy/private_python.py says why). CPython is initialised isolated before cffi or any extension module is
 * used: no environment variables, no user site, no site module, no signal handlers (CPython, 'Python Initialization
 * Configuration').
 */
#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>

#include "build/frozen_modules.h"
#include "interpreter.h"

/* The private Python's directory, below the package's parent (shim/policy/private_python.py). */
#define PRIVATE "pylayer/_private"

static const PylayerShim *shim;

const PylayerShim *pylayer_shim(void)
{
    return shim;
}

static void log_text(int level, const char *what, const char *detail)
{
    char line[900];
    snprintf(line, sizeof line, "%s: %s", what, detail ? detail : "no reason given");
    shim->log(level, line);
}

/* Logs the pending exception as one line. SystemExit is treated like any other exception. Nothing is released, because
 * policy ends. */
static void log_exception(const char *what)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    char line[700];
    snprintf(line, sizeof line, "%s %s", type ? ((PyTypeObject *)type)->tp_name : "", utf8 ? utf8 : "");
    log_text(PYLAYER_LOG_INFO, what, line);
}

static PyStatus add_path(PyConfig *config, const char *path)
{
    wchar_t *wide = Py_DecodeLocale(path, NULL);
    if (!wide)
        return PyStatus_NoMemory();
    PyStatus status = PyWideStringList_Append(&config->module_search_paths, wide);
    PyMem_RawFree(wide);
    return status;
}

static PyStatus configure(PyConfig *config, const char *site)
{
    PyStatus status;
    static const char *const below[] = {"stdlib", "dynload", "site"};
    char private[PATH_MAX + 64], path[PATH_MAX + 64];
    snprintf(private, sizeof private, "%s/" PRIVATE, site);
    config->site_import = 0;
    config->write_bytecode = 0;
    config->module_search_paths_set = 1;
    const struct {
        wchar_t **field;
        const char *text;
    } texts[] = {
        {&config->program_name, "pylayer"},   {&config->executable, ""},       {&config->base_executable, ""},
        {&config->prefix, private},           {&config->base_prefix, private}, {&config->exec_prefix, private},
        {&config->base_exec_prefix, private},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (PyStatus_Exception(status = PyConfig_SetBytesString(config, texts[i].field, texts[i].text)))
            return status;
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        snprintf(path, sizeof path, "%s/" PRIVATE "/%s", site, below[i]);
        if (PyStatus_Exception(status = add_path(config, path)))
            return status;
    }
    return Py_InitializeFromConfig(config);
}

static int initialise(const char *site)
{
    PyImport_FrozenModules = frozen_modules;
    PyPreConfig before;
    PyPreConfig_InitIsolatedConfig(&before);
    before.utf8_mode = 1;
    PyStatus status = Py_PreInitialize(&before);
    if (!PyStatus_Exception(status)) {
        PyConfig config;
        PyConfig_InitIsolatedConfig(&config);
        status = configure(&config, site);
        PyConfig_Clear(&config);
    }
    if (PyStatus_Exception(status)) {
        log_text(PYLAYER_LOG_INFO, "Python did not start, so the layer does nothing", status.err_msg);
        return 0;
    }
    /* The program's output is not ours to write to. */
    PySys_SetObject("stdout", Py_None);
    PySys_SetObject("stderr", Py_None);
    return 1;
}

/* Runs start.py. The package's modules are frozen (shim/policy/freeze.py). Others are found in the package's directory.
 * The rest of site-packages is not on the path, because its extension modules are bound to no particular libpython.
 * Neither is the standard library of the Python that built pylayer: a container may lack it or have another version. */
static void run_policy(const char *site)
{
    char stdlib[PATH_MAX + 64];
    snprintf(stdlib, sizeof stdlib, "%s/" PRIVATE "/stdlib", site);
    PyObject *module = PyImport_ImportModule("pylayer.inhost.start");
    PyObject *result = module ? PyObject_CallMethod(module, "run", "ss", site, stdlib) : NULL;
    if (!result)
        log_exception("policy failed, so the layer does nothing from now on");
}

__attribute__((visibility("default"))) int pylayer_policy_run(const PylayerShim *commands, const IsolatedFrom *program)
{
    shim = commands;
    if (commands->boundary_version != PYLAYER_BOUNDARY_VERSION) {
        commands->log(PYLAYER_LOG_INFO, "the layer and the policy library do not match; the layer does nothing");
        return -1;
    }
    isolation_begin(program);
    if (!initialise(program->site))
        return -1;
    run_policy(program->site);
    /* Never finalize: with C threads alive that crashed 3 of 40 programs at exit (measured, 3.13). The thread only
     * releases the GIL. */
    PyEval_SaveThread();
    return 0;
}
