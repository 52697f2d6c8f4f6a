/* d3d11.c - a Windows program that draws with Direct3D 11, off screen
 *
 *   d3d11.exe COUNT
 *
 * COUNT triangles, each with a pixel shader of its own. It waits ten seconds, in which DXVK compiles pipelines in the
 * background: a driver without hardware never says that something is drawn. Then it prints "ready" and returns 0. Without a
 * device it says so and exits with 2. */
#define COBJMACROS
#include <windows.h>

#include <d3d11.h>

#include "d3d.h"

static ID3D11Device *device;
static ID3D11DeviceContext *context;

static void make_target(void)
{
    ID3D11Texture2D *texture;
    ID3D11RenderTargetView *target;
    D3D11_TEXTURE2D_DESC info = {.Width = 64,
                                 .Height = 64,
                                 .MipLevels = 1,
                                 .ArraySize = 1,
                                 .Format = DXGI_FORMAT_R8G8B8A8_UNORM,
                                 .SampleDesc = {.Count = 1},
                                 .BindFlags = D3D11_BIND_RENDER_TARGET};
    D3D11_VIEWPORT viewport = {.Width = 64, .Height = 64, .MaxDepth = 1};
    check("CreateTexture2D", ID3D11Device_CreateTexture2D(device, &info, NULL, &texture));
    check("CreateRenderTargetView",
          ID3D11Device_CreateRenderTargetView(device, (ID3D11Resource *)texture, NULL, &target));
    ID3D11DeviceContext_OMSetRenderTargets(context, 1, &target, NULL);
    ID3D11DeviceContext_RSSetViewports(context, 1, &viewport);
    ID3D11DeviceContext_IASetPrimitiveTopology(context, D3D11_PRIMITIVE_TOPOLOGY_TRIANGLELIST);
}

static void draw(int number)
{
    ID3D11PixelShader *shader;
    ID3D10Blob *code =
        compile("float4 main(float4 at : SV_Position) : SV_Target { return float4(at.x * %d.0, at.y, 0.5, 1.0); }",
                number, "ps_4_0");
    check("CreatePixelShader", ID3D11Device_CreatePixelShader(device, ID3D10Blob_GetBufferPointer(code),
                                                              ID3D10Blob_GetBufferSize(code), NULL, &shader));
    ID3D11DeviceContext_PSSetShader(context, shader, NULL, 0);
    ID3D11DeviceContext_Draw(context, 3, 0);
    ID3D11DeviceContext_Flush(context);
}

int main(int argc, char **argv)
{
    ID3D11VertexShader *shader;
    check("D3D11CreateDevice", D3D11CreateDevice(NULL, D3D_DRIVER_TYPE_HARDWARE, NULL, 0, NULL, 0, D3D11_SDK_VERSION,
                                                 &device, NULL, &context));
    make_target();
    ID3D10Blob *code = compile("float4 main(float4 at : POSITION) : SV_Position { return at * %d.0; }", 1, "vs_4_0");
    check("CreateVertexShader", ID3D11Device_CreateVertexShader(device, ID3D10Blob_GetBufferPointer(code),
                                                                ID3D10Blob_GetBufferSize(code), NULL, &shader));
    D3D11_INPUT_ELEMENT_DESC element = {.SemanticName = "POSITION", .Format = DXGI_FORMAT_R32G32B32A32_FLOAT};
    ID3D11InputLayout *layout;
    check("CreateInputLayout", ID3D11Device_CreateInputLayout(device, &element, 1, ID3D10Blob_GetBufferPointer(code),
                                                              ID3D10Blob_GetBufferSize(code), &layout));
    ID3D11DeviceContext_IASetInputLayout(context, layout);
    ID3D11DeviceContext_VSSetShader(context, shader, NULL, 0);
    for (int i = 0, count = argc > 1 ? atoi(argv[1]) : 1; i < count; i++)
        draw(i);
    Sleep(10000);
    printf("ready\n");
    fflush(stdout);
    ID3D11DeviceContext_Release(context);
    ID3D11Device_Release(device);
    return 0;
}
