// DXVK native: a compute shader in Direct3D 11, and a triangle in Direct3D 9. Prints what they wrote.
#define GLFW_INCLUDE_NONE
#include <GLFW/glfw3.h>
#include <d3d11.h>
#include <d3d9.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static void check(HRESULT result, const char *what)
{
    if (result == S_OK)
        return;
    std::fprintf(stderr, "%s: %08x\n", what, unsigned(result));
    std::exit(1);
}

// cs_5_0: u0[4 * id] = id + number. The digests are those of the container behind them, which DXVK checks.
static std::vector<uint32_t> shader(uint32_t number)
{
    const uint32_t digests[2][4] = {{0xE090136B, 0x9A66085F, 0xD5553EF6, 0xBC10B89C},
                                    {0xAD6A7B78, 0x43A3A804, 0xF1CDF891, 0x5754D99B}};
    const std::vector<uint32_t> code = {
        0x00050050, 0,                                                    // version, length
        0x0100086A,                                                       // dcl_globalFlags refactoringAllowed
        0x0300009D, 0x0011E000, 0,                                        // dcl_uav_raw u0
        0x0200005F, 0x00020012,                                           // dcl_input vThreadID.x
        0x02000068, 1,                                                    // dcl_temps 1
        0x0400009B, 64,         1, 1,                                     // dcl_thread_group 64, 1, 1
        0x06000029, 0x00100012, 0, 0x0002000A, 0x00004001, 2,             // ishl r0.x, vThreadID.x, 2
        0x0600001E, 0x00100022, 0, 0x0002000A, 0x00004001, number,        // iadd r0.y, vThreadID.x, number
        0x070000A6, 0x0011E012, 0, 0x0010000A, 0,          0x0010001A, 0, // store_raw u0.x, r0.x, r0.y
        0x0100003E,                                                       // ret
    };
    const uint32_t bytes = uint32_t(code.size() * 4);
    std::vector<uint32_t> container = {0x43425844, 0, 0, 0, 0,          1, 0, 3, 44,         60,   76,
                                       0x4E475349, 8, 0, 8, 0x4E47534F, 8, 0, 8, 0x58454853, bytes};
    container.insert(container.end(), code.begin(), code.end());
    container[6] = uint32_t(container.size() * 4);
    container[22] = uint32_t(code.size());
    std::memcpy(&container[1], digests[number == 4], 16);
    return container;
}

static void direct3d11()
{
    ID3D11Device *device;
    ID3D11DeviceContext *context;
    check(D3D11CreateDevice(nullptr, D3D_DRIVER_TYPE_HARDWARE, nullptr, 0, nullptr, 0, D3D11_SDK_VERSION, &device,
                            nullptr, &context),
          "D3D11CreateDevice");
    for (uint32_t number : {1, 4}) {
        const auto code = shader(number);
        ID3D11ComputeShader *compute;
        check(device->CreateComputeShader(code.data(), code.size() * 4, nullptr, &compute), "CreateComputeShader");
        D3D11_BUFFER_DESC layout = {
            256, D3D11_USAGE_DEFAULT, D3D11_BIND_UNORDERED_ACCESS, 0, D3D11_RESOURCE_MISC_BUFFER_ALLOW_RAW_VIEWS, 0};
        ID3D11Buffer *buffer, *copy;
        check(device->CreateBuffer(&layout, nullptr, &buffer), "CreateBuffer");
        layout = {256, D3D11_USAGE_STAGING, 0, D3D11_CPU_ACCESS_READ, 0, 0};
        check(device->CreateBuffer(&layout, nullptr, &copy), "CreateBuffer");
        D3D11_UNORDERED_ACCESS_VIEW_DESC shape = {};
        shape.Format = DXGI_FORMAT_R32_TYPELESS;
        shape.ViewDimension = D3D11_UAV_DIMENSION_BUFFER;
        shape.Buffer.NumElements = 64;
        shape.Buffer.Flags = D3D11_BUFFER_UAV_FLAG_RAW;
        ID3D11UnorderedAccessView *view;
        check(device->CreateUnorderedAccessView(buffer, &shape, &view), "CreateUnorderedAccessView");
        context->CSSetShader(compute, nullptr, 0);
        context->CSSetUnorderedAccessViews(0, 1, &view, nullptr);
        context->Dispatch(1, 1, 1);
        context->CopyResource(copy, buffer);
        D3D11_MAPPED_SUBRESOURCE mapped;
        check(context->Map(copy, 0, D3D11_MAP_READ, 0, &mapped), "Map");
        uint32_t sum = 0;
        for (int i = 0; i < 64; i++)
            sum += static_cast<const uint32_t *>(mapped.pData)[i];
        std::printf("result of Direct3D 11: %u\n", sum);
    }
}

static void direct3d9()
{
    glfwWindowHint(GLFW_CLIENT_API, GLFW_NO_API);
    GLFWwindow *window = glfwCreateWindow(64, 64, "DXVK", nullptr, nullptr);
    IDirect3D9 *direct3d = Direct3DCreate9(D3D_SDK_VERSION);
    D3DPRESENT_PARAMETERS wanted = {};
    wanted.BackBufferWidth = wanted.BackBufferHeight = 64;
    wanted.BackBufferFormat = D3DFMT_X8R8G8B8;
    wanted.BackBufferCount = 1;
    wanted.SwapEffect = D3DSWAPEFFECT_DISCARD;
    wanted.hDeviceWindow = reinterpret_cast<HWND>(window);
    wanted.Windowed = TRUE;
    IDirect3DDevice9 *device;
    check(direct3d->CreateDevice(0, D3DDEVTYPE_HAL, wanted.hDeviceWindow, D3DCREATE_HARDWARE_VERTEXPROCESSING, &wanted,
                                 &device),
          "CreateDevice");
    const struct {
        float x, y, z, w;
        uint32_t colour;
    } corners[] = {{4, 4, 0, 1, 0xffff0000}, {60, 8, 0, 1, 0xff00ff00}, {20, 60, 0, 1, 0xff0000ff}};
    IDirect3DSurface9 *target, *copy;
    check(device->GetRenderTarget(0, &target), "GetRenderTarget");
    check(device->CreateOffscreenPlainSurface(64, 64, D3DFMT_X8R8G8B8, D3DPOOL_SYSTEMMEM, &copy, nullptr),
          "CreateSurface");
    for (DWORD fill : {D3DFILL_SOLID, D3DFILL_WIREFRAME}) {
        check(device->Clear(0, nullptr, D3DCLEAR_TARGET, 0xff203040, 1, 0), "Clear");
        check(device->BeginScene(), "BeginScene");
        device->SetRenderState(D3DRS_LIGHTING, FALSE);
        device->SetRenderState(D3DRS_CULLMODE, D3DCULL_NONE);
        device->SetRenderState(D3DRS_FILLMODE, fill);
        device->SetFVF(D3DFVF_XYZRHW | D3DFVF_DIFFUSE);
        check(device->DrawPrimitiveUP(D3DPT_TRIANGLELIST, 1, corners, sizeof *corners), "DrawPrimitiveUP");
        check(device->EndScene(), "EndScene");
        check(device->GetRenderTargetData(target, copy), "GetRenderTargetData");
        D3DLOCKED_RECT locked;
        check(copy->LockRect(&locked, nullptr, D3DLOCK_READONLY), "LockRect");
        uint32_t digest = 7;
        for (int y = 0; y < 64; y++)
            for (int x = 0; x < 64 * 4; x++)
                digest = digest * 31 + static_cast<const uint8_t *>(locked.pBits)[y * locked.Pitch + x];
        copy->UnlockRect();
        std::printf("result of Direct3D 9: %u\n", digest);
    }
}

int main()
{
    glfwInit();
    direct3d11();
    direct3d9();
    std::fflush(stdout);
    sleep(1); // DXVK compiles on in threads of its own
    std::_Exit(0);
}
